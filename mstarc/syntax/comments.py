"""Which `##` comments are the text of a declaration, and what they say."""

from mstarc.syntax.tokens import Comment, TokenList


def attached_docs(read: TokenList) -> dict[int, tuple[Comment, ...]]:
    """The `##` lines right before a token, by the token's start."""
    docs: dict[int, tuple[Comment, ...]] = {}
    comments = [comment for comment in read.comments if comment.own_line]
    position = 0
    for token in read.tokens:
        before: tuple[Comment, ...] = ()
        while position < len(comments) and comments[position].start < token.start:
            comment = comments[position]
            before = (*before, comment) if comment.is_doc else ()
            position += 1
        if before:
            docs[token.start] = before
    return docs


def doc_text(comments: tuple[Comment, ...]) -> str:
    """What `##` comments say, a line each."""
    return "\n".join(comment.text.removeprefix("##").removeprefix(" ") for comment in comments)
