"""Relations that usually are set-valued: a new node declares them so at its first start."""

_NAMES = """
    allergic_to answered asked attended belongs_to child colleague dislikes event friend goal
    has hobby interest interested_in knows language likes member_of mentioned mentions message
    note owns parent participant pet plays said sibling skill speaks studied tag tagged uses
    visited wants watched worked_on works_on works_with wrote
"""
USUAL_RELATIONS = tuple(
    sorted(
        {
            f"{prefix}{spelled}"
            for name in _NAMES.split()
            for spelled in (name, name.replace("_", "-"))
            for prefix in ("", "memory:")
        }
    )
)
"""Each bare and below ``memory:``, with ``_`` and with ``-``. The event of the first start carries
the list, so a later release changes no existing log."""
