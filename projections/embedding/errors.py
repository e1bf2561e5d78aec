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


class EmbeddingError(Exception):
    """Base of everything this package raises on purpose."""


class ProviderUnavailable(EmbeddingError):
    """The provider cannot answer now. ``retry_after_seconds``: when to retry, if known."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ProviderRefused(EmbeddingError):
    """The provider refused the request: a wrong key, an unknown model, no credit left."""


class BadAnswer(EmbeddingError):
    """The answer is not one finite vector per text, of the model's dimensions."""


class EmbeddingsOff(EmbeddingError):
    """The configured provider is ``none``."""


class ModelFileError(EmbeddingError):
    """The bundled model's files are absent, or have another checksum."""


class UnknownModel(EmbeddingError):
    """A name that no provider here serves."""


class WrongDimensions(UnknownModel):
    """The model does not have this number of dimensions, or cannot be cut to it."""


class PinMismatch(EmbeddingError):
    """The facts are indexed with another model than the configured one; re-indexing resolves it."""

    title = "vec_facts model mismatch"

    def __init__(self, stored: object, configured: object) -> None:
        super().__init__(
            f"{self.title}: facts are indexed with {stored}, configured is {configured};"
            " restore the setting, or re-index all facts with the new one"
        )


class DimensionMismatch(PinMismatch):
    """The vectors differ in length (seed §20.2.4)."""

    title = "vec_facts dimensionality mismatch"


class ModelMismatch(PinMismatch):
    """The vectors have equal length, but come from different models or recipes."""
