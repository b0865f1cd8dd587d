"""Charts that fetch nothing: a picture, and beside it the chart for front ends that draw it.

Altair's own default loads a script from the network, and shows an error where there is none: offline, on GitHub, and in
what nbconvert writes.
"""

from __future__ import annotations

import base64
from typing import Any

import altair as alt

MIME_TYPE = "application/vnd.vegalite.v5+json"
"""What JupyterLab, Notebook 7 and VS Code draw by themselves; they do not know the type of Altair 6 yet."""

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.20.json"

_SCALE = 2
"""Pixels of the picture for each of the chart, for screens of high resolution."""


class _Static:
    def _repr_mimebundle_(self, include: object = None, exclude: object = None, **options: Any) -> Any:
        """Return the picture and the specification; what Altair's renderer returns, if the user has enabled one."""
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(include, exclude, **options)  # type: ignore[misc]
        spec = self.to_dict()  # type: ignore[attr-defined]
        spec["$schema"] = _SCHEMA
        bundle = {MIME_TYPE: spec, "text/plain": str(spec.get("title", "chart"))}
        picture = png(spec)
        if picture is None:
            return bundle
        data, width, height = picture
        bundle["image/png"] = base64.b64encode(data).decode()
        return bundle, {"image/png": {"width": width, "height": height}}


class StaticChart(_Static, alt.Chart):  # type: ignore[misc]
    """A chart of one layer."""


class StaticLayerChart(_Static, alt.LayerChart):  # type: ignore[misc]
    """A chart of several layers."""


def layer(*charts: alt.Chart) -> StaticLayerChart:
    """Put charts on top of each other."""
    return StaticLayerChart(layer=[*charts])


def png(spec: dict[str, Any]) -> tuple[bytes, int, int] | None:
    """Return a picture, and its width and height on the page; None if vl-convert is not installed."""
    try:
        import vl_convert
    except ModuleNotFoundError:
        return None
    data = bytes(vl_convert.vegalite_to_png(spec, vl_version="5.20", scale=_SCALE, allowed_base_urls=[]))
    width, height = (int.from_bytes(data[start : start + 4], "big") // _SCALE for start in (16, 20))
    return data, width, height
