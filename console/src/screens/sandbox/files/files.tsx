// The files inside: browse, look, edit, bring in, take out, and compare with what it began with.
import { useState } from 'preact/hooks';
import { listFolder } from '../../../api/files';
import type { FileEntry, Sandbox } from '../../../api/types';
import { tidy } from '../../../lib/paths';
import { can } from '../../../state/session';
import { attempt } from '../../../state/toasts';
import { Empty, Trouble } from '../../../ui/bits';
import { Button } from '../../../ui/button';
import { useLoad } from '../../../ui/use_load';
import { DiffView } from './diff';
import { FileList } from './list';
import { PathBar } from './path_bar';
import { FileView } from './view';
import { droppedItems, progress, upload } from './upload';

const rank = (entry: FileEntry) => (entry.type === 'folder' ? 0 : 1);
const byName = (a: FileEntry, b: FileEntry) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1);

// Where somebody was is where he finds himself when he comes back.
const places = new Map<string, string>();

function useDrop(usable: boolean, take: (transfer: DataTransfer) => Promise<void>) {
  const [over, setOver] = useState(false);
  const handlers = {
    onDragOver: (event: DragEvent) => {
      if (!usable) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: (event: DragEvent) => {
      if (event.target === event.currentTarget) setOver(false);
    },
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      const transfer = event.dataTransfer;
      if (usable && transfer) void attempt(() => take(transfer));
    },
  };
  return { over, handlers };
}

function Progress() {
  const now = progress.value;
  if (!now) return null;
  return (
    <div class="panel row" role="status" data-testid="upload-progress">
      <span class="grow">
        Uploading {now.done} of {now.total}…
      </span>
      <Button onClick={now.stop}>Stop</Button>
    </div>
  );
}

export function FilesTab({ box }: { box: Sandbox }) {
  const [path, setPath] = useState(places.get(box.id) ?? '/workspace');
  const [open, setOpen] = useState<FileEntry | undefined>(undefined);
  const [comparing, setComparing] = useState(false);
  const reachable = box.state !== 'ended' && box.state !== 'creating';
  const load = useLoad(
    async () => (reachable ? (await listFolder(box.id, path)).sort(byName) : []),
    [box.id, path, box.state],
  );
  const usable = can('use') && reachable;
  const visit = (next: string) => {
    const clean = tidy(next, path);
    places.set(box.id, clean);
    setPath(clean);
  };
  const drop = useDrop(usable, async (transfer) => {
    await upload(box.id, path, await droppedItems(transfer));
    await load.reload();
  });
  return (
    <div
      class={drop.over ? 'stack dropping' : 'stack'}
      data-testid="tab-files"
      data-path={path}
      {...drop.handlers}
    >
      <PathBar
        box={box}
        path={path}
        usable={usable}
        comparing={comparing}
        onVisit={visit}
        onCompare={() => setComparing(!comparing)}
        reload={load.reload}
      />
      <Progress />
      {load.error && <Trouble error={load.error} />}
      {comparing ? (
        <DiffView box={box} below={path} />
      ) : (
        load.data &&
        (load.data.length > 0 ? (
          <FileList
            box={box}
            path={path}
            entries={load.data}
            usable={usable}
            onVisit={visit}
            onOpen={setOpen}
            reload={load.reload}
          />
        ) : (
          <Empty testid="files-empty">
            {reachable
              ? 'Nothing here. Drop files to upload them.'
              : 'It has ended; its files are gone.'}
          </Empty>
        ))
      )}
      {open && (
        <FileView
          box={box}
          entry={open}
          usable={usable}
          onClose={() => {
            setOpen(undefined);
            void load.reload();
          }}
        />
      )}
    </div>
  );
}
