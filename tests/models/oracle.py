"""A cache that is really filled, token by token: what the closed forms must equal."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class FilledLayer:
    """One layer's cache of one sequence. A page is freed when the last token it holds has left the window."""

    window: int | None
    page: int
    frees: bool
    pages: dict[int, set[int]] = field(default_factory=dict)
    most_pages: int = 0

    def append(self, token: int) -> None:
        self.pages.setdefault(token // self.page, set()).add(token)
        if self.frees and self.window is not None:
            for number in list(self.pages):
                self.pages[number] = {each for each in self.pages[number] if each > token - self.window}
                if not self.pages[number]:
                    del self.pages[number]
        self.most_pages = max(self.most_pages, len(self.pages))

    def tokens_reserved(self) -> int:
        return len(self.pages) * self.page

    def most_tokens_reserved(self) -> int:
        return self.most_pages * self.page


def filled(context: int, window: int | None, page: int | None, *, frees: bool) -> FilledLayer:
    """A layer that has seen `context` tokens; without pages each token has a page of its own."""
    layer = FilledLayer(window, page or 1, frees)
    for token in range(context):
        layer.append(token)
    return layer


def elements_of_a_token(kv_heads: int, key_dim: int, value_dim: int) -> int:
    """Elements one token stores in one layer, counted one by one."""
    return sum(1 for _ in range(kv_heads) for dim in (key_dim, value_dim) for _ in range(dim))


def sees(query: int, key: int, window: int | None, chunk: int | None) -> bool:
    """Whether the token at position `query` sees the one at `key` in a causal layer."""
    if key > query:
        return False
    if chunk is not None and key // chunk != query // chunk:
        return False
    return window is None or query - key < window
