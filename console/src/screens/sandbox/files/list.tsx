import { useState } from 'preact/hooks';
import { archiveAddress, fileAddress, moveFile, removeFile, stat } from '../../../api/files';
import type { FileEntry, Sandbox } from '../../../api/types';
import { bytes, count, dateTime } from '../../../lib/format';
import { join, tidy } from '../../../lib/paths';
import { attempt } from '../../../state/toasts';
import { Button } from '../../../ui/button';
import { confirm, openForm } from '../../../ui/form';
import { Icon } from '../../../ui/icon';
import { Heads } from '../../../ui/heads';

const kShownAtOnce = 500; // a folder can hold a hundred thousand

interface ListProps {
  box: Sandbox;
  path: string;
  entries: FileEntry[];
  usable: boolean;
  onVisit: (path: string) => void;
  onOpen: (entry: FileEntry) => void;
  reload: () => Promise<void>;
}

function openRename(props: ListProps, entry: FileEntry): void {
  openForm({
    name: 'rename',
    title: `Rename ${entry.name}`,
    action: 'Rename',
    fields: [{ name: 'to', label: 'New name or path', value: entry.name, required: true }],
    run: async ({ to = '' }) => {
      await moveFile(props.box.id, entry.path, tidy(to, props.path));
      await props.reload();
    },
  });
}

function openRemove(props: ListProps, entry: FileEntry): void {
  const folder = entry.type === 'folder';
  confirm(
    'remove',
    `Remove ${entry.name}?`,
    folder ? 'The folder with all that is in it.' : entry.path,
    'Remove',
    async () => {
      await removeFile(props.box.id, entry.path, folder);
      await props.reload();
    },
  );
}

function FileRow({ entry, list }: { entry: FileEntry; list: ListProps }) {
  const folder = entry.type === 'folder';
  const path = join(list.path, entry.name);
  const open = async () => {
    // A link is what it points to.
    const real = entry.type === 'link' ? await stat(list.box.id, path) : entry;
    if (real.type === 'folder') list.onVisit(path);
    else list.onOpen({ ...real, name: entry.name, path });
  };
  const address = folder ? archiveAddress(list.box.id, path) : fileAddress(list.box.id, path);
  return (
    <tr data-testid="file-row" data-name={entry.name} data-type={entry.type}>
      <td class="wide-text">
        <button
          type="button"
          class="file-name"
          data-testid="file-open"
          onClick={() => void attempt(open)}
        >
          <Icon name={folder ? 'folder' : entry.type === 'link' ? 'link' : 'file'} />
          <span>
            {entry.name}
            {entry.target !== undefined && <small> → {entry.target}</small>}
          </span>
        </button>
      </td>
      <td class="num">{entry.type === 'file' ? bytes(entry.size) : ''}</td>
      <td class="num phone-hide">
        <code>{entry.mode}</code>
      </td>
      <td class="num phone-hide">
        {entry.uid}:{entry.gid}
      </td>
      <td class="now phone-hide dim">{dateTime(entry.modified_at)}</td>
      <td class="actions-cell">
        <div class="row">
          {(folder || entry.type === 'file') && (
            <a
              class="button quiet only-icon"
              href={address}
              download={folder ? `${entry.name}.tar` : entry.name}
              aria-label={`Download ${entry.name}`}
              title="Download"
              data-testid="file-download"
            >
              <Icon name="download" />
            </a>
          )}
          {list.usable && (
            <Button
              kind="quiet"
              icon="edit"
              label="Rename"
              testid="file-rename"
              onClick={() => openRename(list, entry)}
            />
          )}
          {list.usable && (
            <Button
              kind="quiet"
              icon="trash"
              label="Remove"
              testid="file-remove"
              onClick={() => openRemove(list, entry)}
            />
          )}
        </div>
      </td>
    </tr>
  );
}

export function FileList(props: ListProps) {
  const [shown, setShown] = useState(kShownAtOnce);
  const rest = props.entries.length - shown;
  return (
    <div class="table-wrap">
      <table data-testid="file-list">
        <Heads
          of={[
            'Name',
            ['Size', 'num'],
            ['Mode', 'num phone-hide'],
            ['Owner', 'num phone-hide'],
            ['Changed', 'phone-hide'],
          ]}
          actions
        />
        <tbody>
          {props.entries.slice(0, shown).map((entry) => (
            <FileRow key={entry.name} entry={entry} list={props} />
          ))}
        </tbody>
      </table>
      {rest > 0 && (
        <div class="more">
          <Button
            onClick={() => setShown(shown + kShownAtOnce)}
          >{`Show more (${count(rest)} left)`}</Button>
        </div>
      )}
    </div>
  );
}
