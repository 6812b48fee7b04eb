// The part of the create dialog that most people never open.
import type { Volume } from '../../api/types';
import { Button } from '../../ui/button';
import { Area, Choice, Flag, Text, type Bound } from './fields';

function Files({ draft, change }: Bound) {
  const set = (index: number, part: Partial<{ path: string; text: string }>) =>
    change({ files: draft.files.map((file, at) => (at === index ? { ...file, ...part } : file)) });
  return (
    <fieldset>
      <legend>Files, below the workspace</legend>
      <div class="form">
        {draft.files.map((file, index) => (
          <div key={index} class="stack tight-stack">
            <div class="row">
              <input
                class="grow"
                type="text"
                placeholder="main.py"
                aria-label="Path"
                value={file.path}
                data-testid={`create-file-path-${index}`}
                onInput={(event) => set(index, { path: event.currentTarget.value })}
              />
              <Button
                kind="quiet"
                icon="trash"
                label="Remove the file"
                onClick={() => change({ files: draft.files.filter((_, at) => at !== index) })}
              />
            </div>
            <textarea
              rows={3}
              aria-label="Content"
              spellcheck={false}
              value={file.text}
              data-testid={`create-file-text-${index}`}
              onInput={(event) => set(index, { text: event.currentTarget.value })}
            />
          </div>
        ))}
        <div>
          <Button
            icon="plus"
            testid="create-add-file"
            onClick={() => change({ files: [...draft.files, { path: '', text: '' }] })}
          >
            File
          </Button>
        </div>
      </div>
    </fieldset>
  );
}

function Volumes({ draft, change, known }: Bound & { known: Volume[] }) {
  if (known.length === 0) return null;
  const set = (index: number, part: Partial<{ name: string; path: string; read_only: boolean }>) =>
    change({
      volumes: draft.volumes.map((volume, at) => (at === index ? { ...volume, ...part } : volume)),
    });
  return (
    <fieldset>
      <legend>Volumes</legend>
      <div class="form">
        {draft.volumes.map((volume, index) => (
          <div key={index} class="row">
            <select
              aria-label="Volume"
              value={volume.name}
              data-testid={`create-volume-${index}`}
              onChange={(event) => set(index, { name: event.currentTarget.value })}
            >
              {known.map((one) => (
                <option key={one.name} value={one.name}>
                  {one.name}
                </option>
              ))}
            </select>
            <input
              class="grow"
              type="text"
              aria-label="Path inside"
              value={volume.path}
              onInput={(event) => set(index, { path: event.currentTarget.value })}
            />
            <label class="check inline">
              <input
                type="checkbox"
                checked={volume.read_only}
                onChange={(event) => set(index, { read_only: event.currentTarget.checked })}
              />
              <span>read-only</span>
            </label>
            <Button
              kind="quiet"
              icon="trash"
              label="Remove the volume"
              onClick={() => change({ volumes: draft.volumes.filter((_, at) => at !== index) })}
            />
          </div>
        ))}
        <div>
          <Button
            icon="plus"
            testid="create-add-volume"
            onClick={() => {
              const name = known[0]?.name ?? '';
              change({
                volumes: [...draft.volumes, { name, path: `/mnt/${name}`, read_only: false }],
              });
            }}
          >
            Volume
          </Button>
        </div>
      </div>
    </fieldset>
  );
}

export function More(bound: Bound & { volumes: Volume[] }) {
  return (
    <div class="form">
      <div class="fields">
        <Text {...bound} name="hostname" label="Host name inside" placeholder="its id" />
        <Text {...bound} name="workdir" label="Working folder" placeholder="/workspace" />
        <Text {...bound} name="user" label="User id" placeholder="65534" />
        <Choice
          {...bound}
          name="root"
          label="Root file system"
          options={[
            ['', "the profile's"],
            ['read_only', 'read-only'],
            ['writable', 'writable'],
          ]}
        />
      </div>
      <div class="fields">
        <Flag {...bound} name="persistent" label="Persistent" hint="files outlive a stop" />
        <Flag {...bound} name="disk_storage" label="On disk" hint="more room than memory" />
        <Flag
          {...bound}
          name="checkpoint"
          label="Undo for each call"
          hint="files are kept before each"
        />
      </div>
      <div class="fields wide-fields">
        <Area {...bound} name="env" label="Variables" placeholder={'NAME=value'} />
        <Area {...bound} name="labels" label="Labels" placeholder={'team=red'} />
      </div>
      <fieldset>
        <legend>Budget for language models</legend>
        <div class="fields">
          <Text {...bound} name="max_tokens" label="Tokens" placeholder="no limit" />
          <Text {...bound} name="max_cost" label="Money, USD" placeholder="no limit" />
          <Choice
            {...bound}
            name="on_exceed"
            label="At the limit"
            options={[
              ['refuse', 'refuse calls'],
              ['stop', 'end the sandbox'],
            ]}
          />
        </div>
      </fieldset>
      <Files {...bound} />
      <Volumes {...bound} known={bound.volumes} />
    </div>
  );
}
