import { useEffect, useRef, useState } from 'preact/hooks';
import { archiveAddress, createFile, makeFolder } from '../../../api/files';
import type { Sandbox } from '../../../api/types';
import { crumbs, join, parent } from '../../../lib/paths';
import { Button } from '../../../ui/button';
import { openForm } from '../../../ui/form';
import { Icon } from '../../../ui/icon';
import { Menu } from '../../../ui/menu';
import { chosenItems, upload } from './upload';

interface PathBarProps {
  box: Sandbox;
  path: string;
  usable: boolean;
  comparing: boolean;
  onVisit: (path: string) => void;
  onCompare: () => void;
  reload: () => Promise<void>;
}

function openNew(props: PathBarProps, kind: 'folder' | 'file'): void {
  openForm({
    name: `new-${kind}`,
    title: `New ${kind} in ${props.path}`,
    action: 'Make it',
    fields: [{ name: 'name', label: 'Name', required: true }],
    run: async ({ name = '' }) => {
      const path = join(props.path, name);
      await (kind === 'folder' ? makeFolder(props.box.id, path) : createFile(props.box.id, path));
      await props.reload();
    },
  });
}

// A path that can be clicked piece by piece, or typed.
function Place({ path, onVisit }: { path: string; onVisit: (path: string) => void }) {
  const [typing, setTyping] = useState<string | undefined>(undefined);
  const ref = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (typing !== undefined) {
      ref.current?.focus();
      ref.current?.select();
    }
  }, [typing !== undefined]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'p') return;
      event.preventDefault();
      setTyping(path);
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [path]);
  if (typing !== undefined) {
    return (
      <form
        class="grow"
        onSubmit={(event) => {
          event.preventDefault();
          onVisit(typing);
          setTyping(undefined);
        }}
      >
        <input
          ref={ref}
          class="path-input mono"
          type="text"
          aria-label="Path"
          value={typing}
          data-testid="path-input"
          onInput={(event) => setTyping(event.currentTarget.value)}
          onBlur={() => setTyping(undefined)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') setTyping(undefined);
          }}
        />
      </form>
    );
  }
  return (
    <div class="crumbs grow mono" data-testid="path-crumbs">
      {crumbs(path).map((crumb, index) => (
        <span key={crumb.path}>
          {index > 1 && <span class="dim">/</span>}
          <button type="button" class="crumb" onClick={() => onVisit(crumb.path)}>
            {crumb.name}
          </button>
        </span>
      ))}
      <Button
        kind="quiet"
        icon="edit"
        label="Type a path"
        testid="path-edit"
        onClick={() => setTyping(path)}
      />
    </div>
  );
}

export function PathBar(props: PathBarProps) {
  const { box, path, usable, onVisit, reload } = props;
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  useEffect(() => folder.current?.setAttribute('webkitdirectory', ''), []);
  const chosen = async (input: HTMLInputElement) => {
    if (input.files) await upload(box.id, path, chosenItems(input.files));
    input.value = '';
    await reload();
  };
  return (
    <div class="path-bar">
      <Button
        icon="up"
        label="One folder up"
        testid="files-up"
        disabled={path === '/'}
        onClick={() => onVisit(parent(path))}
      />
      <Place path={path} onVisit={onVisit} />
      <div class="actions">
        <Button icon="refresh" label="Read again" testid="files-refresh" onClick={reload} />
        <Button pressed={props.comparing} testid="files-diff" onClick={props.onCompare}>
          Changes
        </Button>
        {usable && (
          <Button icon="upload" testid="files-upload" onClick={() => files.current?.click()}>
            Upload
          </Button>
        )}
        <a
          class="button plain"
          href={archiveAddress(box.id, path)}
          download
          data-testid="files-tar"
          title="This folder as a tar archive"
        >
          <Icon name="download" />
          <span>Tar</span>
        </a>
        {usable && (
          <Menu
            label="New"
            testid="files-new"
            items={[
              { name: 'file', text: 'New file', run: () => openNew(props, 'file') },
              { name: 'folder', text: 'New folder', run: () => openNew(props, 'folder') },
              {
                name: 'upload-folder',
                text: 'Upload a folder',
                run: () => folder.current?.click(),
              },
            ]}
          />
        )}
      </div>
      <input
        ref={files}
        type="file"
        multiple
        hidden
        data-testid="files-picker"
        onChange={(event) => void chosen(event.currentTarget)}
      />
      <input
        ref={folder}
        type="file"
        multiple
        hidden
        data-testid="folder-picker"
        onChange={(event) => void chosen(event.currentTarget)}
      />
    </div>
  );
}
