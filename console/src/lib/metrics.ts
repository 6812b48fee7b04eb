// The text format of Prometheus, as far as a summary needs it.

export interface Metric {
  name: string;
  labels: string;
  value: number;
}

export function parseMetrics(text: string): Metric[] {
  const out: Metric[] = [];
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match) out.push({ name: match[1]!, labels: match[2] ?? '', value: Number(match[3]) });
  }
  return out;
}

// What is worth a line of its own: no buckets, sums per route or other series with labels of routes.
export function summary(metrics: readonly Metric[]): Metric[] {
  const out: Metric[] = [];
  const sums = new Map<string, number>();
  for (const metric of metrics) {
    if (metric.name.endsWith('_bucket')) continue;
    if (metric.labels.includes('route=')) {
      if (metric.name.endsWith('_total'))
        sums.set(metric.name, (sums.get(metric.name) ?? 0) + metric.value);
      continue;
    }
    out.push(metric);
  }
  for (const [name, value] of sums) out.push({ name, labels: '', value });
  return out;
}
