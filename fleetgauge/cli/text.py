"""What strangers wrote (client ids, the words of a collector), made safe for a terminal."""


def printable(text: str) -> str:
    r"""The text with every character that does not print written as its escape; no line ends, no terminal commands.

    >>> print(printable("orders\x1b[2J\n\u202efake"))
    orders\x1b[2J\n\u202efake
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
