// A small curve of the last samples. The line always fits; `top` is the limit, when there is one.

const kWidth = 64;
const kHeight = 18;

export function points(values: readonly number[], top: number, slots = 30): string {
  const step = kWidth / (slots - 1);
  const start = kWidth - (values.length - 1) * step;
  return values
    .map((value, index) => {
      const y = kHeight - 1 - Math.min(1, top > 0 ? value / top : 0) * (kHeight - 2);
      return `${(start + index * step).toFixed(1)},${y.toFixed(1)}`;
    })
    .join(' ');
}

// Where the curve ends above: at the limit, or lower when nearly nothing of it is used, so that a
// change can be seen. A tenth of the limit is always in it, so noise does not look like work.
export function scaleTop(values: readonly number[], limit: number): number {
  const highest = Math.max(0, ...values) * 1.25;
  return limit > 0 ? Math.min(limit, Math.max(highest, limit / 10)) : highest || 1;
}

export function Sparkline({
  values,
  top,
  label,
  kind,
}: {
  values: readonly number[];
  top: number;
  label: string;
  kind: 'cpu' | 'memory';
}) {
  const line = points(values, top);
  const first = line.split(',')[0] ?? '0';
  return (
    <svg class={`spark ${kind}`} viewBox={`0 0 ${kWidth} ${kHeight}`} role="img" aria-label={label}>
      <title>{label}</title>
      {values.length > 1 && <polygon points={`${first},${kHeight} ${line} ${kWidth},${kHeight}`} />}
      {values.length > 1 && <polyline points={line} />}
    </svg>
  );
}
