"""Style sheets, scripts and the icon, served from memory at an address that changes with their content."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response


class _Asset(NamedTuple):
    content: bytes
    media_type: str
    version: str


class Assets:
    """The files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._assets: dict[str, _Asset] = {}
        for file in sorted(folder.iterdir()):
            content = file.read_bytes()
            # Browsers run a module only with a JavaScript type, and the system's table may name another.
            kind = "text/javascript" if file.suffix == ".js" else mimetypes.guess_type(file.name)[0] or "text/plain"
            self._assets[file.name] = _Asset(content, kind, hashlib.sha256(content).hexdigest()[:12])

    def url(self, name: str) -> str:
        """Return the address of a file, with its version."""
        # A changed file has another address, so browsers may cache it forever.
        return f"/static/{name}?v={self._assets[name].version}"

    async def serve(self, request: Request) -> Response:
        asset = self._assets.get(request.path_params["name"])
        if asset is None:
            return Response("Not found", 404)
        # Modules import each other without a version, so those requests rely on the ETag.
        is_versioned = request.query_params.get("v") == asset.version
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable" if is_versioned else "no-cache",
            "X-Content-Type-Options": "nosniff",
            "ETag": f'"{asset.version}"',
        }
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(asset.content, media_type=asset.media_type, headers=headers)
