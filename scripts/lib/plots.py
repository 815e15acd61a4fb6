"""Plots of what is measured over threads, as SVG by hand."""
import math

COLOURS = {"weft": "#c03028", "MPICH": "#2868b0", "Open MPI": "#30904c", "Intel MPI": "#8058a8"}


def plot(everything, name, path):
    """One measure over T, both axes logarithmic: SVG by hand. False without two points."""
    lines, unit = {}, ""
    for measure, results in everything.values():
        if measure.name == name:
            unit = measure.unit
            for setting, series in results.items():
                if series.median:
                    lines.setdefault(setting, []).append((measure.threads, series.median))
    points = [point for line in lines.values() for point in line]
    if len({x for x, _ in points}) < 2:
        return False
    width, height, left, top, right, bottom = 640, 380, 60, 30, 150, 40
    most_x = math.log2(max(x for x, _ in points))
    low = math.floor(math.log10(min(y for _, y in points)))
    high = math.ceil(math.log10(max(y for _, y in points)) + 1e-9)
    high = max(high, low + 1)

    def at(x, y):
        across = left + math.log2(x) / most_x * (width - left - right)
        up = (math.log10(y) - low) / (high - low)
        return across, height - bottom - up * (height - top - bottom)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="18">{name}, {unit}, by threads a rank</text>']
    for decade in range(low, high + 1):
        _, y = at(1, 10.0 ** decade)
        out.append(f'<path d="M{left} {y:.1f}H{width - right}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** decade:g}</text>')
    for threads in sorted({x for x, _ in points}):
        x, _ = at(threads, 10.0 ** low)
        out.append(f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">{threads}</text>')
    for row, (setting, line) in enumerate(lines.items()):
        style = f'stroke="{COLOURS.get(setting.library, "#666")}" fill="none" stroke-width="2"'
        style += ' stroke-dasharray="5 3"' if setting.name else ""
        places = [at(*point) for point in sorted(line)]
        path_data = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" {style}/>' for x, y in places]
        y = top + 16 * row + 10
        out.append(f'<path d="M{path_data}" {style}/>')
        out.append(f'<path d="M{width - right + 10} {y}h24" {style}/>'
                   f'<text x="{width - right + 40}" y="{y + 4}">{setting.title}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*out, "</svg>"]) + "\n")
    return True
