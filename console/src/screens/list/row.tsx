// One line of the list. It is drawn again only when its own sandbox or its usage changed.
import { memo } from '../../ui/memo';
import { useEffect } from 'preact/hooks';
import type { Sandbox } from '../../api/types';
import { bytes, duration, percent, secondsUntil, shortDuration } from '../../lib/format';
import { shownLabels, titleOf } from '../../lib/names';
import type { TreeRow } from '../../lib/tree';
import { now } from '../../state/clock';
import { sandboxHref } from '../../state/route';
import { history, watch } from '../../state/usage';
import { Age, shownState, StateDot } from '../../ui/bits';
import { Icon } from '../../ui/icon';
import { scaleTop, Sparkline } from '../../ui/sparkline';

export const kRowHeight = 36;
const kDepthShownMax = 12; // deeper rows are not moved further to the right

interface RowProps {
  row: TreeRow<Sandbox>;
  index: number;
  active: boolean;
  onToggle: (id: string) => void;
  onFocus: (index: number) => void;
}

function TimeLeft({ box }: { box: Sandbox }) {
  if (box.state === 'ended') return <span class="dim">{box.end_reason || 'ended'}</span>;
  if (!box.expires_at) return <span class="dim">no end</span>;
  const left = secondsUntil(box.expires_at, now.value);
  const tone = left < 60 ? 'chip bad' : left < 300 ? 'chip warn' : '';
  return (
    <span class={tone} title={duration(left)}>
      {shortDuration(left)}
    </span>
  );
}

function Sparks({ box }: { box: Sandbox }) {
  useEffect(
    () => (box.state === 'running' || box.state === 'paused' ? watch(box.id) : undefined),
    [box.id, box.state],
  );
  const samples = history(box.id).value;
  const last = samples[samples.length - 1];
  const cpu = samples.map((sample) => sample.cpu);
  const memory = samples.map((sample) => sample.memory);
  const cpuMax = box.resource_limits.cpu ?? 1;
  const memoryMax = (box.resource_limits.memory_mb ?? 0) * 1048576;
  const cpuText = last ? percent(last.cpu / cpuMax) : '';
  const memoryText = last ? bytes(last.memory) : '';
  return (
    <>
      <span class="cell spark-cell phone-hide" role="gridcell">
        <Sparkline kind="cpu" values={cpu} top={scaleTop(cpu, cpuMax)} label={`cpu ${cpuText}`} />
        <small>{cpuText}</small>
      </span>
      <span class="cell spark-cell phone-hide" role="gridcell">
        <Sparkline
          kind="memory"
          values={memory}
          top={scaleTop(memory, memoryMax)}
          label={`memory ${memoryText}`}
        />
        <small>{memoryText}</small>
      </span>
    </>
  );
}

export const Row = memo<RowProps>(
  function Row({ row, index, active, onToggle, onFocus }) {
    const box = row.item;
    const indent = Math.min(row.depth, kDepthShownMax) * 18;
    return (
      <div
        class={`list-row ${box.state}`}
        role="row"
        aria-level={row.depth + 1}
        aria-posinset={row.position}
        aria-setsize={row.siblings}
        aria-expanded={row.children > 0 ? row.open : undefined}
        tabIndex={active ? 0 : -1}
        data-index={index}
        data-id={box.id}
        data-testid="sandbox-row"
        style={{ top: `${index * kRowHeight}px` }}
        onFocus={() => onFocus(index)}
      >
        <span class="cell name-cell" role="gridcell" style={{ paddingLeft: `${indent}px` }}>
          {row.children > 0 ? (
            <button
              type="button"
              class={row.open ? 'twist open' : 'twist'}
              tabIndex={-1}
              data-testid="row-toggle"
              aria-label={row.open ? 'Close branch' : 'Open branch'}
              onClick={() => onToggle(box.id)}
            >
              <Icon name="right" />
            </button>
          ) : (
            <span class="twist" />
          )}
          <StateDot state={shownState(box)} />
          <a href={sandboxHref(box.id)} tabIndex={-1} class="clip" data-testid="row-link">
            {titleOf(box)}
          </a>
          {box.public && <span class="chip warn">public</span>}
          {shownLabels(box)
            .slice(0, 2)
            .map(([name, value]) => (
              <span key={name} class="chip phone-hide" title={`${name}=${value}`}>
                {value || name}
              </span>
            ))}
        </span>
        <span class="cell clip dim phone-hide" role="gridcell" title={box.image}>
          {box.image}
        </span>
        <span class="cell dim" role="gridcell">
          <Age time={box.created_at} />
        </span>
        <span class="cell" role="gridcell" data-testid="row-left">
          <TimeLeft box={box} />
        </span>
        <Sparks box={box} />
      </div>
    );
  },
  (a, b) =>
    a.row.item === b.row.item &&
    a.row.open === b.row.open &&
    a.row.children === b.row.children &&
    a.row.depth === b.row.depth &&
    a.index === b.index &&
    a.active === b.active,
);
