"""The certificates that servers are checked against. Loading them takes about 25 ms."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from tenure.errors import ConfigError


def certificates(environ: Mapping[str, str]) -> ssl.SSLContext:
    """The certificate store: the one named in `environ`, else the one of the certifi package.

    Blocks; call it in a thread.

    Raises:
        ConfigError: the named file cannot be read.
    """
    import certifi

    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return ssl.create_default_context(cafile=certifi.where())
    try:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    except OSError as exc:
        raise ConfigError(f"The certificates in {file or folder} cannot be read: {exc}.") from None
