"""Refusals: what the server answers where it does not do what was asked, in the form of OpenAI's API."""

from __future__ import annotations

from typing import Any

from ..errors import RlmError


class RequestRefused(RlmError):
    """A request that is refused, with its status."""

    def __init__(
        self, status: int, message: str, code: str, *, param: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(status, message, code)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.retry_after = retry_after
        self.details: dict[str, Any] = {}

    def __str__(self) -> str:
        return self.message

    def body(self) -> dict[str, Any]:
        """Return the body of the response."""
        error = {"message": self.message, "type": _kind(self.status), "param": self.param, "code": self.code}
        return {"error": error, **self.details}

    def headers(self) -> dict[str, str]:
        """Return headers of the response: whether it helps to ask again is said, not guessed by the client."""
        headers = {"x-should-retry": "true" if self.retry_after is not None else "false"}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return headers


def not_found(what: str, name: str) -> RequestRefused:
    """Return the refusal of something that is not there, or that is another's: which of them is not said."""
    return RequestRefused(404, f"There is no {what} {name[:80]!r}.", "not_found")


def bad_request(message: str, param: str | None = None) -> RequestRefused:
    """Return the refusal of a request that cannot be understood."""
    return RequestRefused(400, message, "invalid_request", param=param)


def _kind(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 422:
        return "no_answer"  # the request was understood, and the run has no answer
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
