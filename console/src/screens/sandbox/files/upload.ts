// Files and folders from the person's own machine: dropped, or chosen. A few at a time, each by
// one request; a folder is the paths of its files.
import { signal } from '@preact/signals';
import { writeFile } from '../../../api/files';
import { isAbort } from '../../../api/client';
import { join, tidy } from '../../../lib/paths';
import { complain, inform } from '../../../state/toasts';
import { plural } from '../../../lib/format';

export const kFilesMax = 5000; // of one drop
const kAtOnceMax = 3;

export interface Item {
  path: string; // below the folder that is shown
  file: File;
}

export interface Progress {
  done: number;
  total: number;
  stop: () => void;
}
export const progress = signal<Progress | undefined>(undefined);

export const chosenItems = (files: FileList): Item[] =>
  [...files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

const fileOf = (entry: FileSystemFileEntry) =>
  new Promise<File>((resolve, reject) => entry.file(resolve, reject));

// A reader gives a hundred at a time, and nothing at the end.
async function entriesOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0 || all.length > kFilesMax) return all;
    all.push(...some);
  }
}

export async function droppedItems(transfer: DataTransfer): Promise<Item[]> {
  // The list is empty after the first wait, so all entries are taken first.
  const entries = [...transfer.items]
    .map((item) => item.webkitGetAsEntry())
    .filter((entry) => entry !== null);
  if (entries.length === 0) return chosenItems(transfer.files);
  const items: Item[] = [];
  const queue = [...entries];
  for (let entry = queue.shift(); entry && items.length <= kFilesMax; entry = queue.shift()) {
    if (entry.isDirectory) queue.push(...(await entriesOf(entry as FileSystemDirectoryEntry)));
    else
      items.push({
        path: entry.fullPath.replace(/^\//, ''),
        file: await fileOf(entry as FileSystemFileEntry),
      });
  }
  return items;
}

export async function upload(sandbox: string, folder: string, items: Item[]): Promise<void> {
  if (items.length === 0) return;
  if (items.length > kFilesMax) {
    complain(
      new Error(`more than ${kFilesMax} files at once: upload a tar archive by the API instead`),
    );
    return;
  }
  const stop = new AbortController();
  const queue = [...items];
  let done = 0;
  const tell = () => {
    progress.value = { done, total: items.length, stop: () => stop.abort() };
  };
  tell();
  const worker = async () => {
    for (let item = queue.shift(); item && !stop.signal.aborted; item = queue.shift()) {
      await writeFile(sandbox, tidy(join(folder, item.path)), item.file, undefined, stop.signal);
      done += 1;
      tell();
    }
  };
  try {
    await Promise.all(Array.from({ length: kAtOnceMax }, worker));
    inform(`${plural(done, 'file')} uploaded`);
  } catch (error) {
    stop.abort();
    if (isAbort(error)) inform(`Stopped after ${plural(done, 'file')}`);
    else complain(error);
  }
  progress.value = undefined;
}
