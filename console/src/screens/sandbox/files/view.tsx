// One file: text that can be edited, a picture, or a word that it is neither. What is saved must
// not overwrite what somebody else wrote since it was read; its ETag says so.
import { useState } from 'preact/hooks';
import { fileAddress, writeFile } from '../../../api/files';
import { isStatus } from '../../../api/client';
import type { FileEntry, Sandbox } from '../../../api/types';
import { bytes } from '../../../lib/format';
import { forFile } from '../../../lib/lines';
import { attempt, inform } from '../../../state/toasts';
import { Trouble } from '../../../ui/bits';
import { Button } from '../../../ui/button';
import { Dialog } from '../../../ui/dialog';
import { confirm } from '../../../ui/form';
import { Icon } from '../../../ui/icon';
import { useContent, type Content } from './content';

interface ViewProps {
  box: Sandbox;
  entry: FileEntry;
  usable: boolean;
  onClose: () => void;
}

// What is shown, what was typed, and how it gets back.
function useEditor({ box, entry, onClose }: ViewProps) {
  const { content, setContent, error, again } = useContent(box, entry);
  const [draft, setDraft] = useState<string | undefined>(undefined);
  const changed = content.kind === 'text' && draft !== undefined && draft !== content.text;
  const save = async (force = false): Promise<void> => {
    if (content.kind !== 'text' || draft === undefined) return;
    try {
      const text = forFile(draft, content.ends);
      const written = await writeFile(box.id, entry.path, text, force ? undefined : content.etag);
      setContent({ ...content, text: draft, etag: written.etag });
      inform(`${entry.name} is saved`);
    } catch (problem) {
      if (!isStatus(problem, 412)) throw problem;
      const text = 'Somebody or something wrote to it after you opened it. Overwriting loses that.';
      confirm('conflict', `${entry.name} was changed meanwhile`, text, 'Overwrite', () =>
        save(true),
      );
    }
  };
  const close = () => {
    if (!changed) return onClose();
    const leave = async () => onClose();
    confirm(
      'unsaved',
      `Leave ${entry.name} unsaved?`,
      'Your changes are lost then.',
      'Leave it',
      leave,
    );
  };
  const reread = () => {
    setDraft(undefined);
    again();
  };
  return { content, draft, setDraft, changed, error, save, close, reread };
}

function Body({
  content,
  entry,
  draft,
  editable,
  onInput,
}: {
  content: Content;
  entry: FileEntry;
  draft: string | undefined;
  editable: boolean;
  onInput: (text: string) => void;
}) {
  switch (content.kind) {
    case 'loading':
      return <p class="lead">Loading…</p>;
    case 'none':
      return (
        <p class="lead" data-testid="file-no-preview">
          {content.why}
        </p>
      );
    case 'image':
      return (
        <img class="preview-image" src={content.url} alt={entry.name} data-testid="file-image" />
      );
    case 'text':
      return (
        <textarea
          class="editor"
          rows={24}
          spellcheck={false}
          readOnly={!editable}
          data-first=""
          aria-label={entry.name}
          data-testid="file-editor"
          value={draft ?? content.text}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      );
  }
}

export function FileView(props: ViewProps) {
  const { box, entry, usable } = props;
  const editor = useEditor(props);
  const { content, changed } = editor;
  const mixed = content.kind === 'text' && content.ends === 'mixed';
  const editable = usable && content.kind === 'text' && !mixed;
  const onKeyDown = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 's') {
      event.preventDefault();
      if (changed && editable) void attempt(editor.save);
    }
  };
  return (
    <Dialog title={entry.path} testid="file-view" wide onClose={editor.close}>
      <div class="form" onKeyDown={onKeyDown}>
        {editor.error && <Trouble error={editor.error} />}
        {mixed && (
          <p class="lead">It has several kinds of line ends, which an editor would lose.</p>
        )}
        <Body
          content={content}
          entry={entry}
          draft={editor.draft}
          editable={editable}
          onInput={editor.setDraft}
        />
        <footer class="dialog-foot">
          <small class="grow">
            {bytes(entry.size)}, mode {entry.mode}, {entry.uid}:{entry.gid}
          </small>
          <a
            class="button plain"
            href={fileAddress(box.id, entry.path)}
            download={entry.name}
            data-testid="view-download"
          >
            <Icon name="download" />
            <span>Download</span>
          </a>
          {content.kind === 'text' && (
            <Button testid="file-reload" onClick={editor.reread}>
              Read again
            </Button>
          )}
          {editable && (
            <Button
              kind="primary"
              disabled={!changed}
              testid="file-save"
              onClick={() => editor.save()}
            >
              Save
            </Button>
          )}
        </footer>
      </div>
    </Dialog>
  );
}
