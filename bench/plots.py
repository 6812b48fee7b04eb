"""Pictures of figures, as SVG that a browser and a reader of Markdown both show; light and dark alike."""

import math
from html import escape

WIDTH, HEIGHT = 720, 340
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 46, 50
COLOURS = ("#2f6fdb", "#d1662b", "#3a9a5b", "#8f4fc4")
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #444; } .title { font-size: 15px; font-weight: 600; }
.grid { stroke: #8884; } .name { font-size: 12px; } .own { font-weight: 700; }
@media (prefers-color-scheme: dark) { text { fill: #ccc; } }
</style>"""


def nice(most):
    """A round number at or above `most`, and the step of a grid of about five lines."""
    rough = max(most, 1e-9) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 2.5, 5, 10) if power * one >= rough)
    return step * math.ceil(most / step), step


def number(value):
    return f"{value:.10g}" if value < 10 else f"{value:,.0f}"


def document(parts, title, height=HEIGHT):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{escape(title, quote=True)}">')
    return "\n".join([head, STYLE, f'<text class="title" x="16" y="24">{escape(title)}</text>', *parts, "</svg>", ""])


def lines(title, across, up, series):
    """`series`: {name: [(x, y), …]}; both axes begin at nothing."""
    return document(chart(across, up, series), title)


def panels(title, across, charts):
    """Several charts of the same numbers, one below the other. `charts`: [(up, series), …]."""
    parts = []
    for index, (up, series) in enumerate(charts):
        inner = "\n".join(chart(across, up, series))
        parts.append(f'<g transform="translate(0 {index * HEIGHT})">\n{inner}\n</g>')
    return document(parts, title, HEIGHT * len(charts))


def chart(across, up, series):
    right, across_step = nice(max(x for points in series.values() for x, _ in points))
    top, up_step = nice(max(y for points in series.values() for _, y in points))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x, y):
        return LEFT + wide * x / right, TOP + high * (1 - y / top)

    parts = []
    for index in range(round(top / up_step) + 1):
        _, y = place(0, index * up_step)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number(index * up_step)}</text>')
    for index in range(round(right / across_step) + 1):
        x, _ = place(index * across_step, 0)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                     f"{number(index * across_step)}</text>")
    parts.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="24" text-anchor="end">{escape(up)}</text>')
    for index, (name, points) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in
                  (place(*point) for point in points)]
        x, y = LEFT + 14, TOP + 12 + 18 * index
        parts.append(f'<line x1="{x}" x2="{x + 18}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text class="name" x="{x + 24}" y="{y + 4}">{escape(name)}</text>')
    return parts


def bars(title, unit, rows, own=()):
    """`rows`: [(name, value), …]; the axis is logarithmic, since peers lie orders of magnitude apart."""
    names, step = 190, 26
    height = TOP + step * len(rows) + 16
    low = math.floor(math.log10(min(value for _, value in rows)))
    span = max(math.log10(max(value for _, value in rows)) - low, 1)
    wide = WIDTH - names - 110
    parts = [f'<text x="{WIDTH - RIGHT}" y="24" text-anchor="end">{escape(unit)}, logarithmic</text>']
    for index, (name, value) in enumerate(rows):
        y = TOP + step * index
        long = max(2.0, wide * (math.log10(value) - low) / span)
        mark = ' own' if name in own else ""
        parts.append(f'<text class="name{mark}" x="{names - 10}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{names}" y="{y + 3}" width="{long:.1f}" height="16" rx="2" '
                     f'fill="{COLOURS[0] if mark else "#999"}"/>')
        parts.append(f'<text class="name" x="{names + long + 8:.1f}" y="{y + 15}">{value:.2f}</text>')
    return document(parts, title, height)
