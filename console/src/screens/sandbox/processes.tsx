import { useEffect, useState } from 'preact/hooks';
import { listProcesses, removeProcess, signalProcess, startProcess } from '../../api/processes';
import type { Process, Sandbox } from '../../api/types';
import { bytes, ending, shortDuration } from '../../lib/format';
import { onEvent } from '../../state/fleet';
import { can } from '../../state/session';
import { inform } from '../../state/toasts';
import { Empty, Trouble } from '../../ui/bits';
import { Button } from '../../ui/button';
import { openForm } from '../../ui/form';
import { Menu } from '../../ui/menu';
import { useLoad } from '../../ui/use_load';
import { OutputView } from './process_output';
import { Heads } from '../../ui/heads';

const kEveryMs = 2500;
const kSignals = ['TERM', 'INT', 'HUP', 'USR1', 'STOP', 'CONT', 'KILL'];

interface RowProps {
  box: Sandbox;
  process: Process;
  chosen: boolean;
  usable: boolean;
  onChoose: () => void;
  reload: () => Promise<void>;
}

function ProcessRow({ box, process, chosen, usable, onChoose, reload }: RowProps) {
  const act = async (work: Promise<unknown>) => {
    await work;
    await reload();
  };
  return (
    <tr data-testid="process-row" data-process={process.id} aria-selected={chosen}>
      <td class="num">{process.id}</td>
      <td class="wide-text">
        <code data-testid="process-command">{process.command}</code>
      </td>
      <td class="now">
        {process.running ? (
          <span class="chip good" data-testid="process-state">
            running
          </span>
        ) : (
          <span class={process.exit_code === 0 ? 'chip' : 'chip bad'} data-testid="process-state">
            {ending(process)}
          </span>
        )}
        {process.terminal && <span class="chip">terminal</span>}
      </td>
      <td class="num phone-hide">{process.pid}</td>
      <td class="num phone-hide">{shortDuration(process.age_seconds)}</td>
      <td class="num phone-hide">{bytes(process.stdout.end + process.stderr.end)}</td>
      <td class="actions-cell">
        <div class="row">
          <Button testid="process-output" pressed={chosen} onClick={onChoose}>
            Output
          </Button>
          {usable && process.running && (
            <Menu
              label="Signal"
              testid="process-signal"
              items={kSignals.map((name) => ({
                name: name.toLowerCase(),
                text: `SIG${name}`,
                danger: name === 'KILL',
                run: () =>
                  void act(signalProcess(box.id, process.id, name, name === 'KILL')).then(() =>
                    inform(`SIG${name} was sent`),
                  ),
              }))}
            />
          )}
          {usable && (
            <Button
              kind="danger"
              icon="trash"
              label="Kill it with all it started, and forget its output"
              testid="process-remove"
              onClick={() => act(removeProcess(box.id, process.id))}
            />
          )}
        </div>
      </td>
    </tr>
  );
}

function openStart(box: Sandbox, started: (process: Process) => Promise<void>): void {
  openForm({
    name: 'process',
    title: 'Start a process',
    action: 'Start',
    fields: [
      {
        name: 'command',
        label: 'Command',
        placeholder: 'python3 -m http.server 8000',
        required: true,
      },
      { name: 'workdir', label: 'Working folder', placeholder: box.workdir },
    ],
    run: async ({ command, workdir }) =>
      started(await startProcess(box.id, { command, ...(workdir ? { workdir } : {}) })),
  });
}

export function ProcessesTab({ box }: { box: Sandbox }) {
  const running = box.state === 'running' || box.state === 'paused';
  const load = useLoad(
    async () => (running ? listProcesses(box.id) : []),
    [box.id, running],
    kEveryMs,
  );
  const [chosen, setChosen] = useState<number | undefined>(undefined);
  useEffect(
    () =>
      onEvent((event) => {
        if (event.sandbox === box.id && event.type.startsWith('process.')) void load.reload();
      }),
    [box.id, load.reload],
  );
  const usable = box.state === 'running' && can('use');
  const start = () =>
    openStart(box, async (process) => {
      setChosen(process.id);
      await load.reload();
    });
  const list = load.data ?? [];
  const shown = list.find((process) => process.id === chosen);
  return (
    <div class="stack" data-testid="tab-processes">
      <div class="row">
        <p class="lead grow">
          Started by the API. What they start themselves is theirs, and dies with them.
        </p>
        <Button
          icon="plus"
          kind="primary"
          disabled={!usable}
          testid="process-start"
          onClick={start}
        >
          Start
        </Button>
      </div>
      {load.error && <Trouble error={load.error} />}
      {list.length === 0 ? (
        <Empty testid="process-none">No process.</Empty>
      ) : (
        <div class="table-wrap">
          <table>
            <Heads
              of={[
                ['Id', 'num'],
                'Command',
                'State',
                ['Pid', 'num phone-hide'],
                ['Age', 'num phone-hide'],
                ['Output', 'num phone-hide'],
              ]}
              actions
            />
            <tbody>
              {list.map((process) => (
                <ProcessRow
                  key={process.id}
                  box={box}
                  process={process}
                  chosen={process.id === chosen}
                  usable={usable}
                  onChoose={() => setChosen(process.id === chosen ? undefined : process.id)}
                  reload={load.reload}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {shown && <OutputView key={shown.id} box={box} process={shown} />}
    </div>
  );
}
