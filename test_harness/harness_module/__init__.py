"""Widgets in Python. PUBLICMARK-automodule"""


class Widget:
    """A widget that can be calibrated. PUBLICMARK-autoclass"""

    def zero(self) -> int:
        """Return the zero position. PUBLICMARK-automethod"""
        return 0


def start(size: int, *, cold: bool = False) -> Widget:
    """Start a widget. PUBLICMARK-autofunction

    :param size: how large it is
    :param cold: start without warming up PUBLICMARK-autoparameter
    """
    return Widget()
