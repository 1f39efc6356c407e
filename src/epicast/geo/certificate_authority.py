"""A certificate authority in a folder: for one machine, a test, or a team that has no other.

`ca.pem` may be given to everybody, `ca.key` to nobody: who has it can be anybody. Keys are
elliptic-curve keys (P-256), written once, readable by their owner only.

Needs the package `cryptography`; using certificates needs nothing but Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from epicast.core import EpicastError
from epicast.deployment.certificates import Role, certificate_uri
from epicast.deployment.naming import NAME_RULE, is_name
from epicast.geo.secret_files import PUBLIC, SECRET, already_there, write_new

DEFAULT_DAYS = 397
AUTHORITY_DAYS = 3650
_CLOCKS_DIFFER = timedelta(minutes=10)
"""A certificate is valid from a little before it was made."""


class CertificateFailed(EpicastError):
    """A certificate cannot be made or read; the message says what to do."""


class Issued(Struct, frozen=True):
    certificate: Path
    key: Path


class Authority:
    def __init__(self, certificate: Path) -> None:
        """`certificate`: such as `ca.pem`; the key is beside it, as `ca.key`."""
        self.certificate = certificate
        self.key = certificate.with_suffix(".key")

    @property
    def exists(self) -> bool:
        return self.certificate.exists() and self.key.exists()

    def create(self, name: str, days: int = AUTHORITY_DAYS) -> None:
        """Make the authority itself; there must be none yet."""
        key = _new_key()
        subject = _name(f"Epicast authority of {name}")
        now = datetime.now(UTC)
        built = (
            _builder(subject, subject, key, now - _CLOCKS_DIFFER, now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        write_new(self.key, _key_text(key), SECRET)
        write_new(self.certificate, _certificate_text(_signed(built, key)), PUBLIC)

    def issue(
        self,
        role: Role,
        geoplex: str,
        name: str,
        *,
        hosts: Iterable[str] = (),
        stem: str | None = None,
        replace: bool = False,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
    ) -> Issued:
        """A certificate and its key, in the authority's folder as `STEM.pem` and `STEM.key`.

        `hosts`: under which others reach it. `stem` is the name unless given.
        """
        for each in (name, stem or name):
            if not is_name(each):
                raise CertificateFailed(f"{each!r}: {NAME_RULE}")
        folder = self.certificate.parent
        issued = Issued(folder / f"{stem or name}.pem", folder / f"{stem or name}.key")
        if {_folded(issued.certificate), _folded(issued.key)} & {
            _folded(self.certificate),
            _folded(self.key),
        }:
            raise CertificateFailed(
                f"{issued.certificate}: that is the authority's own name: choose another"
            )
        authority, signing_key = self._load()
        key = _new_key()
        now = datetime.now(UTC)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if role != "client":
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        names: list[x509.GeneralName] = [_host(host) for host in dict.fromkeys(hosts)]
        names.append(x509.UniformResourceIdentifier(certificate_uri(geoplex, role, name)))
        built = (
            _builder(
                _name(name),
                authority.subject,
                key,
                valid_from or now - _CLOCKS_DIFFER,
                valid_until or now + timedelta(days=DEFAULT_DAYS),
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
                critical=False,
            )
        )
        if not replace and issued.certificate.exists():
            raise already_there(issued.certificate)
        write_new(issued.key, _key_text(key), SECRET, replace=replace)
        text = _certificate_text(_signed(built, signing_key))
        write_new(issued.certificate, text, PUBLIC, replace=replace)
        return issued

    def _load(self) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
        authority = read_certificate(self.certificate)
        try:
            key = load_pem_private_key(self.key.read_bytes(), password=None)
        except (ValueError, TypeError):
            raise CertificateFailed(f"{self.key}: not a key in PEM without a password") from None
        except OSError as error:
            raise CertificateFailed(
                f"{self.key}: cannot be read: {error.strerror}; make certificates where the "
                "authority's key is"
            ) from None
        if not isinstance(key, EllipticCurvePrivateKey):
            raise CertificateFailed(f"{self.key}: not an elliptic-curve key, as made here")
        if not _is_authority(authority):
            raise CertificateFailed(
                f"{self.certificate}: not the certificate of an authority: nobody would trust what "
                "it signs; `epicast certificate authority` makes one where there is none"
            )
        if authority.public_key() != key.public_key():
            raise CertificateFailed(f"{self.key}: not the key of {self.certificate}")
        return authority, key


def read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise CertificateFailed(f"{path}: not a certificate in PEM") from None
    except OSError as error:
        raise CertificateFailed(
            f"{path}: cannot be read: {error.strerror}; `epicast certificate local FILE` makes all "
            "that a geoplex.toml names"
        ) from None


def describe(certificate: x509.Certificate) -> dict[str, object]:
    """What people want to know of a certificate."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = [str(name.value) for name in found.value]
    except x509.ExtensionNotFound:
        names = []
    now = datetime.now(UTC)
    return {
        "subject": certificate.subject.rfc4514_string(),
        "issuer": certificate.issuer.rfc4514_string(),
        "names": names,
        "serial": f"{certificate.serial_number:X}",
        "valid_from": certificate.not_valid_before_utc.isoformat(),
        "valid_until": certificate.not_valid_after_utc.isoformat(),
        "expired": certificate.not_valid_after_utc < now,
        "not_yet_valid": certificate.not_valid_before_utc > now,
    }


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return False
    return found.value.ca


def _folded(path: Path) -> str:
    """For disks to which `CA.pem` and `ca.pem` are one file."""
    return path.name.casefold()


def _new_key() -> EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text)
    except ValueError:
        raise CertificateFailed(f"{text!r} is not the name or the address of a host") from None


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    valid_from: datetime,
    valid_until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid_from)
        .not_valid_after(valid_until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    return builder.sign(key, SHA256())


def _certificate_text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _key_text(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
