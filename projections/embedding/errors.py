"""Every error of this package, drawn as one tree.

EmbeddingError
├── ProviderUnavailable   no answer now: refused, slow, overloaded; asking later may help
├── ProviderRefused       the request or its credentials will not do; asking again is no use
├── BadAnswer             the answer is not the requested vectors
├── EmbeddingsOff         no provider is configured
├── ModelFileError        the weights of the bundled model are missing or not the right ones
├── UnknownModel          no such provider or model
│   └── WrongDimensions       the model does not have these dimensions
└── PinMismatch           the log pins another model than is configured: the node must not start
    ├── DimensionMismatch     … with another number of dimensions
    └── ModelMismatch         … with as many: nothing would break, and every answer be wrong
"""

from __future__ import annotations


class EmbeddingError(Exception):
    """Base of everything this package raises on purpose."""


class ProviderUnavailable(EmbeddingError):
    """The provider cannot answer at present.

    Attributes:
        retry_after_seconds: when asking again makes sense, where that is known.
    """

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ProviderRefused(EmbeddingError):
    """The provider understood and said no: a wrong key, an unknown model, no credit left."""


class BadAnswer(EmbeddingError):
    """What came back is not one finite vector a text, of the model's dimensions."""


class EmbeddingsOff(EmbeddingError):
    """The configured provider is ``none``."""


class ModelFileError(EmbeddingError):
    """The bundled model's files are absent, or their checksum is another one."""


class UnknownModel(EmbeddingError):
    """A name that no provider here serves."""


class WrongDimensions(UnknownModel):
    """A number of dimensions that the model does not have, or cannot be cut to."""


class PinMismatch(EmbeddingError):
    """Facts are indexed with another model than is configured; re-indexing resolves it."""

    title = "vec_facts model mismatch"

    def __init__(self, stored: object, configured: object) -> None:
        super().__init__(
            f"{self.title}: facts are indexed with {stored}, configured is {configured};"
            " restore the setting, or re-index all facts with the new one"
        )
        self.stored = stored
        self.configured = configured


class DimensionMismatch(PinMismatch):
    """The vectors differ in length (seed §20.2.4)."""

    title = "vec_facts dimensionality mismatch"


class ModelMismatch(PinMismatch):
    """The vectors are equally long, but of different models or recipes."""
