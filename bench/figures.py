"""Times of one command each, and the table they end up in. Medians and ratios of one interleaved run compare well;
absolute times of a busy machine do not.
"""

from dataclasses import dataclass, field


def quantile(values, share):
    """The value below which the share of all values lies, interpolated between neighbours."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * share
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


@dataclass
class Figure:
    """One row: what was measured, in milliseconds, or why it was not."""

    name: str
    note: str = ""
    samples: list = field(default_factory=list)
    summary: tuple = ()  # (min, median, p90, p99) where the samples are somebody else's
    skipped: str = ""

    def numbers(self):
        if self.summary:
            return self.summary
        if not self.samples:
            return None
        return min(self.samples), *(quantile(self.samples, share) for share in (0.5, 0.9, 0.99))


def rows(figures, reference):
    """Cells of each row as text; the ratio is that of the medians, against the figure called `reference`."""
    base = next((figure.numbers() for figure in figures if figure.name == reference), None)
    for figure in figures:
        label = f"{figure.name} ({figure.note})" if figure.note else figure.name
        numbers = figure.numbers()
        if numbers is None:
            continue
        ratio = f"{numbers[1] / base[1]:.2f}x" if base else ""
        count = str(len(figure.samples)) if figure.samples else ""
        yield [label, count, *(f"{number:.3f}" for number in numbers), ratio]


def table(title, figures, reference, markdown):
    """The whole table as text, with a line for each figure that is missing."""
    head = [title, "n", "min ms", "median ms", "p90 ms", "p99 ms", f"vs {reference}"]
    lines = [head, *rows(figures, reference)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]

    def format_line(cells):
        padded = [cells[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))]
        return f"| {' | '.join(padded)} |" if markdown else "  ".join(padded).rstrip()

    text = [format_line(head)]
    if markdown:
        text.append("| --- " + "| ---: " * (len(head) - 1) + "|")
    text += [format_line(line) for line in lines[1:]]
    missing = [f"SKIPPED {figure.name}: {figure.skipped}" for figure in figures if figure.skipped]
    if missing:
        text += ["", *missing]
    return "\n".join(text)
