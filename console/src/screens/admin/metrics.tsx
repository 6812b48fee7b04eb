import { readMetrics } from '../../api/admin';
import { bytes, count } from '../../lib/format';
import { parseMetrics, summary, type Metric } from '../../lib/metrics';
import { Trouble } from '../../ui/bits';
import { useLoad } from '../../ui/use_load';
import { Heads } from '../../ui/heads';

const kEveryMs = 5000;

function shown(metric: Metric): string {
  if (/_bytes(_total)?$/.test(metric.name)) return bytes(metric.value);
  return Number.isInteger(metric.value) ? count(metric.value) : metric.value.toPrecision(4);
}

export function MetricsPanel() {
  const load = useLoad(async () => summary(parseMetrics(await readMetrics())), [], kEveryMs);
  return (
    <div class="stack" data-testid="panel-metrics">
      <p class="lead">
        A summary of{' '}
        <a href="/metrics" target="_blank" rel="noopener">
          /metrics
        </a>
        , over all tenants.
      </p>
      {load.error && <Trouble error={load.error} />}
      <div class="table-wrap">
        <table>
          <Heads of={['Metric', ['Value', 'num']]} />
          <tbody>
            {(load.data ?? []).map((metric) => (
              <tr key={metric.name + metric.labels} data-testid="metric-row">
                <td class="wide-text">
                  <code>{metric.name.replace(/^caisson_/, '').replace(/_/g, ' ')}</code>{' '}
                  {metric.labels && <small>{metric.labels}</small>}
                </td>
                <td class="num">{shown(metric)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
