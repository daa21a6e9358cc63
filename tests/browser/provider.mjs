// A provider of sign-on that others wrote (npm oidc-provider), as the console's tests need it.
// node provider.mjs PACKAGE PORT RETURN_ADDRESS AUDIENCE JWKS_FILE ROLES_JSON
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [path, port, returnAddress, audience, jwksFile, roles] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(path));

const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
const named = { kid: "one", alg: "ES256", use: "sig" };
writeFileSync(jwksFile, JSON.stringify({ keys: [{ ...pair.publicKey.export({ format: "jwk" }), ...named }] }));

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: "console",
    client_secret: "a secret of the console's tests, thirty-two",
    redirect_uris: [returnAddress],
    response_types: ["code"],
    grant_types: ["authorization_code"],
    id_token_signed_response_alg: "ES256",
  }],
  jwks: { keys: [{ ...pair.privateKey.export({ format: "jwk" }), ...named }] },
  cookies: { keys: ["a key of the tests"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  pkce: { required: () => true },
  // The access token is for Kedge, and says what its holder is there.
  extraTokenClaims: (ctx, token) => ({
    kedge_role: JSON.parse(roles)[token.accountId],
    auth_time: ctx.oidc.entities.AuthorizationCode?.authTime ?? Math.floor(Date.now() / 1000),
  }),
  features: {
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => audience,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: "", audience, accessTokenTTL: 600, accessTokenFormat: "jwt", jwt: { sign: { alg: "ES256" } },
      }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1");
