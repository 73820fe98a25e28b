"""Styles of tables, which PrettyTable before 3.12 names elsewhere."""

from typing import Any

import prettytable

_STYLES: Any = getattr(prettytable, "TableStyle", prettytable)
MARKDOWN, SINGLE_BORDER = _STYLES.MARKDOWN, _STYLES.SINGLE_BORDER
