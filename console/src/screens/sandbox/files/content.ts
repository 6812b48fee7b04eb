// What is in a file, in the form in which it can be shown.
import { useEffect, useState } from 'preact/hooks';
import { readFile } from '../../../api/files';
import type { FileEntry, Sandbox } from '../../../api/types';
import { bytes } from '../../../lib/format';
import { forEditor, lineEnds, type LineEnds } from '../../../lib/lines';
import { asText, imageType, showingOf } from '../../../lib/paths';
import { dataAddress, mayHoldScripts } from '../../../lib/picture';
import { errorText } from '../../../ui/form';

const kTextBytesMax = 1024 * 1024;
const kImageBytesMax = 16 * 1024 * 1024;

export interface TextContent {
  kind: 'text';
  text: string;
  ends: LineEnds;
  etag: string;
}
export type Content =
  | { kind: 'loading' }
  | TextContent
  | { kind: 'image'; url: string }
  | { kind: 'none'; why: string };

async function contentOf(box: Sandbox, entry: FileEntry): Promise<Content> {
  const showing = showingOf(entry.name);
  if (showing === 'none') return { kind: 'none', why: 'There is no preview of this kind of file.' };
  const scripted = mayHoldScripts(imageType(entry.name));
  const most = showing === 'image' && !scripted ? kImageBytesMax : kTextBytesMax;
  if (entry.size > most) {
    return {
      kind: 'none',
      why: `It has ${bytes(entry.size)}; a preview is for up to ${bytes(most)}.`,
    };
  }
  const response = await readFile(box.id, entry.path);
  const data = new Uint8Array(await response.arrayBuffer());
  if (showing === 'image') {
    // Shown by <img>, which runs nothing, whatever is in it. But a person may open the picture in a
    // tab of its own, where a blob would have the console's origin.
    const type = imageType(entry.name);
    if (scripted) return { kind: 'image', url: dataAddress(type, data) };
    return { kind: 'image', url: URL.createObjectURL(new Blob([data], { type })) };
  }
  const text = asText(data);
  if (text === undefined) return { kind: 'none', why: 'It is not text.' };
  const etag = response.headers.get('ETag') ?? '';
  return { kind: 'text', text: forEditor(text), ends: lineEnds(text), etag };
}

export function useContent(box: Sandbox, entry: FileEntry) {
  const [content, setContent] = useState<Content>({ kind: 'loading' });
  const [error, setError] = useState('');
  const [round, setRound] = useState(0);
  useEffect(() => {
    let here = true;
    let url = '';
    contentOf(box, entry).then(
      (fresh) => {
        if (fresh.kind === 'image') url = fresh.url;
        if (here) setContent(fresh);
        else if (url) URL.revokeObjectURL(url);
      },
      (problem) => here && setError(errorText(problem)),
    );
    return () => {
      here = false;
      if (url) URL.revokeObjectURL(url);
    };
  }, [box.id, entry.path, round]);
  return { content, setContent, error, again: () => setRound(round + 1) };
}
