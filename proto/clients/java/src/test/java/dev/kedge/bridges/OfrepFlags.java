package dev.kedge.bridges;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.kedge.platform.FeatureFlagService;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/** Reads the kill switch as a flag, {@code kedge.policy.support.enabled}, over OFREP; the fallback on any doubt. */
public final class OfrepFlags implements FeatureFlagService {
    private static final Duration PATIENCE = Duration.ofSeconds(1);

    private final HttpClient http = HttpClient.newBuilder().connectTimeout(PATIENCE).build();
    private final String address;
    private final String key;

    public OfrepFlags(String address, String key) {
        this.address = address;
        this.key = key;
    }

    @Override
    public boolean isEnabled(String flag, boolean otherwise) {
        var request = HttpRequest.newBuilder(URI.create(address + "/ofrep/v1/evaluate/flags/" + flag))
                .timeout(PATIENCE)
                .header("authorization", "Bearer " + key)
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString("{\"context\": {}}"));
        try {
            HttpResponse<String> answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
            JsonObject body = JsonParser.parseString(answer.body()).getAsJsonObject();
            return answer.statusCode() == 200 ? body.get("value").getAsBoolean() : otherwise;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return otherwise;
        } catch (IOException | RuntimeException unreadable) {
            return otherwise;
        }
    }
}
