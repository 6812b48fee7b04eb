// What it used, beside what it may.
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { getUsage } from '../../api/sandboxes';
import type { Sandbox, Usage } from '../../api/types';
import { bytes, count, duration, money, plural } from '../../lib/format';
import { can } from '../../state/session';
import { history, watch } from '../../state/usage';
import { Bar, Empty, Trouble } from '../../ui/bits';
import { Button } from '../../ui/button';
import { Sparkline } from '../../ui/sparkline';
import { useLoad } from '../../ui/use_load';
import { openLimits } from './limits_form';

interface MeterProps {
  name: string;
  testid: string;
  used: string;
  limit?: string | undefined;
  part?: number | undefined;
  children?: ComponentChildren;
}

function Meter({ name, testid, used, limit, part, children }: MeterProps) {
  return (
    <div class="meter panel" data-testid={`meter-${testid}`}>
      <h2>{name}</h2>
      <p class="meter-value">
        {used} {limit && <small>of {limit}</small>}
      </p>
      {part !== undefined && <Bar part={part} label={name} />}
      {children}
    </div>
  );
}

const part = (used: number, limit: number | null | undefined) => (limit ? used / limit : undefined);

function Models({ box, usage }: { box: Sandbox; usage: Usage }) {
  const { budget } = box;
  return (
    <>
      <Meter
        name="Tokens"
        testid="tokens"
        used={count(usage.tokens)}
        limit={budget.max_tokens != null ? count(budget.max_tokens) : undefined}
        part={part(usage.tokens, budget.max_tokens)}
      />
      <Meter
        name="Money"
        testid="money"
        used={money(usage.cost_usd)}
        limit={budget.max_cost_usd != null ? money(budget.max_cost_usd) : undefined}
        part={part(usage.cost_usd, budget.max_cost_usd)}
      >
        {(budget.max_cost_usd != null || budget.max_tokens != null) && (
          <small>
            at the limit: {budget.on_exceed === 'stop' ? 'it ends' : 'calls are refused'}
          </small>
        )}
      </Meter>
    </>
  );
}

function Machine({ box, usage }: { box: Sandbox; usage: Usage }) {
  const limits = box.resource_limits;
  const samples = history(box.id).value;
  const memoryMax = (limits.memory_mb ?? 0) * 1048576;
  return (
    <>
      <Meter
        name="CPU time"
        testid="cpu"
        used={`${usage.cpu_seconds.toFixed(2)} s`}
        limit={limits.cpu_seconds ? duration(limits.cpu_seconds) : undefined}
        part={part(usage.cpu_seconds, limits.cpu_seconds)}
      >
        <Sparkline
          kind="cpu"
          label="cpu"
          values={samples.map((one) => one.cpu)}
          top={limits.cpu ?? 1}
        />
        <small>{limits.cpu ? `${plural(limits.cpu, 'core')} at most` : 'all cores'}</small>
      </Meter>
      <Meter
        name="Memory"
        testid="memory"
        used={bytes(usage.memory_bytes)}
        limit={memoryMax ? bytes(memoryMax) : undefined}
        part={part(usage.memory_bytes, memoryMax)}
      >
        <small>
          peak {bytes(usage.memory_peak_bytes)}; killed for memory: {count(usage.oom_kills)}
        </small>
      </Meter>
      <Meter
        name="Processes"
        testid="processes"
        used={count(usage.processes)}
        limit={limits.processes ? count(limits.processes) : undefined}
        part={part(usage.processes, limits.processes)}
      />
      <Meter
        name="Time"
        testid="time"
        used={duration(usage.wall_seconds)}
        limit={limits.timeout_seconds ? duration(limits.timeout_seconds) : undefined}
        part={part(usage.wall_seconds, limits.timeout_seconds)}
      >
        <small>{plural(usage.execs, 'command')} run</small>
      </Meter>
      <Meter
        name="Network"
        testid="network"
        used={`${bytes(usage.network.bytes_up)} up, ${bytes(usage.network.bytes_down)} down`}
      >
        <small>
          {count(usage.network.allowed)} allowed, {count(usage.network.denied)} denied,{' '}
          {count(usage.network.open)} open
        </small>
      </Meter>
      <Meter
        name="Disk"
        testid="disk"
        used={`${bytes(usage.io_write_bytes)} written`}
        limit={undefined}
      >
        <small>
          {bytes(usage.io_read_bytes)} read; may hold{' '}
          {limits.disk_mb ? bytes(limits.disk_mb * 1048576) : 'as much as there is'}
        </small>
      </Meter>
    </>
  );
}

export function BudgetTab({ box }: { box: Sandbox }) {
  const alive = box.state === 'running' || box.state === 'paused';
  useEffect(() => (alive ? watch(box.id) : undefined), [box.id, alive]);
  const load = useLoad(() => getUsage(box.id), [box.id, box.state]);
  const samples = history(box.id).value;
  const usage = samples[samples.length - 1]?.usage ?? load.data;
  return (
    <div class="stack" data-testid="tab-budget">
      <div class="row">
        <p class="lead grow">What it used so far, beside what it may use.</p>
        {can('create') && box.state !== 'ended' && (
          <Button testid="change-limits" onClick={() => openLimits(box)}>
            Change limits
          </Button>
        )}
      </div>
      {usage ? (
        <div class="meters">
          <Models box={box} usage={usage} />
          <Machine box={box} usage={usage} />
        </div>
      ) : load.error ? (
        <Trouble error={load.error} />
      ) : (
        <Empty>Loading…</Empty>
      )}
    </div>
  );
}
