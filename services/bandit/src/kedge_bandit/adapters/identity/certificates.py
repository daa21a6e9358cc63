"""Read a client certificate that the TLS handshake has verified: whose it is, and until when."""

from cryptography import x509

from kedge_bandit.adapters.identity.proof import Certificate
from kedge_bandit.domain.errors import InvalidName, Unauthenticated
from kedge_bandit.domain.identity import certificate_name


def read_certificate(pem: bytes) -> Certificate:
    """Read a certificate's name and end; the common name says nothing.

    Raises:
        Unauthenticated: it has no SPIFFE id and no DNS name, or more than one SPIFFE id.
    """
    read = x509.load_pem_x509_certificate(pem)
    try:
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        spiffe = [uri for uri in names.get_values_for_type(x509.UniformResourceIdentifier) if uri.startswith("spiffe:")]
        found = spiffe or [f"dns:{name}" for name in names.get_values_for_type(x509.DNSName)][:1]
        if len(found) != 1:
            raise Unauthenticated("the certificate has no name or several: have it issued with one SPIFFE id")
        return Certificate(certificate_name(found[0]), read.not_valid_after_utc.timestamp())
    except (x509.ExtensionNotFound, x509.DuplicateExtension, InvalidName, ValueError) as error:
        raise Unauthenticated("the certificate has no SPIFFE id and no DNS name that can be used") from error
