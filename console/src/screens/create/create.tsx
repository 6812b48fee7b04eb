// The dialog for a new sandbox. An image that is not here yet is pulled first, with its progress.
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { createSandbox } from '../../api/sandboxes';
import { startProcess } from '../../api/processes';
import { listImages, listVolumes } from '../../api/store';
import { isHere } from '../../lib/images';
import { put } from '../../state/fleet';
import { go } from '../../state/route';
import { server } from '../../state/session';
import { createOpen } from '../../state/shortcuts';
import { attempt } from '../../state/toasts';
import { Button } from '../../ui/button';
import { Dialog } from '../../ui/dialog';
import { errorText } from '../../ui/form';
import { Menu } from '../../ui/menu';
import { useLoad } from '../../ui/use_load';
import { PullBars, usePull } from '../pull_bars';
import { blank, requestOf, type Draft } from './draft';
import { draftOf, kExamples } from './examples';
import { Area, Choice, Text, type Bound } from './fields';
import { More } from './more';

// Another screen may hand over a beginning, such as a snapshot.
const beginning = signal<Partial<Draft>>({});

export function openCreate(draft: Partial<Draft> = {}): void {
  beginning.value = draft;
  createOpen.value = true;
}

export function CreateHost() {
  return createOpen.value ? <CreateDialog /> : null;
}

async function make(
  draft: Draft,
  known: string[],
  pull: (reference: string) => Promise<void>,
): Promise<void> {
  const request = requestOf(draft);
  if (typeof request === 'string') throw new Error(request);
  if (request.image && !isHere(request.image, known)) await pull(request.image);
  const box = await createSandbox(request);
  put(box);
  if (draft.command.trim())
    await attempt(() => startProcess(box.id, { command: draft.command.trim() }));
  createOpen.value = false;
  go('sandboxes', box.id, draft.command.trim() ? 'processes' : 'terminal');
}

function Basics({ draft, change, onExample }: Bound & { onExample: (draft: Draft) => void }) {
  const bound = { draft, change };
  const profiles = server.value?.profiles ?? [];
  return (
    <div class="fields">
      {draft.snapshot ? (
        <Text {...bound} name="snapshot" label="Snapshot" />
      ) : (
        <Text
          {...bound}
          name="image"
          label="Image"
          placeholder={server.value?.default_image ?? 'host'}
          list="create-images"
          first
        />
      )}
      <Text {...bound} name="name" label="Name" placeholder="optional" />
      {profiles.length > 0 && (
        <Choice
          {...bound}
          name="profile"
          label="Profile"
          options={[['', 'none'], ...profiles.map((one): [string, string] => [one, one])]}
        />
      )}
      <div class="field">
        <label>Examples</label>
        <Menu
          label="Choose one"
          testid="create-examples"
          items={kExamples.map((example) => ({
            name: example.name,
            text: example.text,
            hint: example.hint,
            run: () => onExample(draftOf(example)),
          }))}
        />
      </div>
    </div>
  );
}

function Usual(bound: Bound) {
  return (
    <>
      <fieldset>
        <legend>Limits</legend>
        <div class="fields">
          <Text {...bound} name="cpu" label="CPU, cores" placeholder="default" />
          <Text {...bound} name="memory" label="Memory, MiB" placeholder="default" />
          <Text {...bound} name="disk" label="Disk, MiB" placeholder="default" />
          <Text {...bound} name="processes" label="Processes" placeholder="default" />
          <Text {...bound} name="timeout" label="Time to live" placeholder="10m, 2h, 7d" />
          <Text {...bound} name="idle" label="Idle time" placeholder="none" />
        </div>
      </fieldset>
      <div class="fields wide-fields">
        <Area
          {...bound}
          name="rules"
          label="Network: names it may reach"
          placeholder={'pypi.org\n*.example.com 443'}
          hint="One per line, ports behind it; 80 and 443 without. Empty: no network."
        />
        <Area
          {...bound}
          name="command"
          label="Start a command"
          placeholder="optional"
          hint="In the background; a terminal is always there."
        />
      </div>
    </>
  );
}

function CreateDialog() {
  const [draft, setDraft] = useState<Draft>({ ...blank(), ...beginning.value });
  const [more, setMore] = useState(false);
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const pull = usePull();
  const images = useLoad(listImages, []);
  const volumes = useLoad(listVolumes, []);
  useEffect(
    () => () => {
      beginning.value = {};
    },
    [],
  );
  const change = (part: Partial<Draft>) => setDraft((now) => ({ ...now, ...part }));
  const close = () => {
    pull.stop();
    createOpen.value = false;
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setError('');
    try {
      const references = (images.data ?? []).map((image) => image.reference);
      await make(draft, references, (reference) => pull.run({ reference }));
    } catch (problem) {
      setError(errorText(problem));
    }
    setBusy(false);
  };
  const bound = { draft, change };
  return (
    <Dialog title="New sandbox" testid="dialog-create" wide onClose={close}>
      <form class="form" onSubmit={submit}>
        <Basics {...bound} onExample={setDraft} />
        <datalist id="create-images">
          <option value="host" />
          {images.data?.map((image) => (
            <option key={image.reference} value={image.reference} />
          ))}
        </datalist>
        <Usual {...bound} />
        <div>
          <Button
            kind="quiet"
            icon={more ? 'down' : 'right'}
            testid="create-more"
            onClick={() => setMore(!more)}
          >
            {more ? 'Less' : 'More: files, variables, storage, budget'}
          </Button>
        </div>
        {more && <More {...bound} volumes={volumes.data ?? []} />}
        <PullBars pull={pull} />
        {error && (
          <p class="form-error" role="alert" data-testid="create-error">
            {error}
          </p>
        )}
        <footer class="dialog-foot">
          <Button onClick={close} testid="create-cancel">
            Cancel
          </Button>
          <Button type="submit" kind="primary" disabled={busy} testid="create-submit">
            {busy ? 'Creating…' : 'Create'}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
