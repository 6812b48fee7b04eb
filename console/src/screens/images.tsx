import { collectGarbage, exportAddress, importImage, listImages, removeImage } from '../api/store';
import type { Image } from '../api/types';
import { bytes, dateTime, plural } from '../lib/format';
import { can } from '../state/session';
import { inform } from '../state/toasts';
import { Age, Empty, Page, Trouble } from '../ui/bits';
import { Button } from '../ui/button';
import { confirm, openForm } from '../ui/form';
import { Icon } from '../ui/icon';
import { useLoad } from '../ui/use_load';
import { openCreate } from './create/create';
import { PullBars, usePull, type Pull } from './pull_bars';
import { Heads } from '../ui/heads';

function openPull(pull: Pull, reload: () => Promise<void>): void {
  openForm({
    name: 'pull',
    title: 'Pull an image',
    text: 'Every layer is checked by its digest. Name and password are for this call only.',
    action: 'Pull',
    fields: [
      { name: 'reference', label: 'Reference', placeholder: 'python:3.12', required: true },
      { name: 'username', label: 'User of the registry', placeholder: 'optional' },
      { name: 'password', label: 'Password or token', kind: 'password', placeholder: 'optional' },
    ],
    // The dialog closes at once; the progress is on the page.
    run: async ({ reference = '', username, password }) => {
      const wish = {
        reference,
        ...(username ? { username } : {}),
        ...(password ? { password } : {}),
      };
      void pull
        .run(wish)
        .then(
          () => inform(`${reference} is here`),
          (error) => showFailure(reference, error),
        )
        .then(reload);
    },
  });
}

function showFailure(reference: string, error: unknown): void {
  openForm({
    name: 'pull-failed',
    title: `${reference} was not pulled`,
    text: error instanceof Error ? error.message : String(error),
    action: 'All right',
    notice: true,
    run: async () => undefined,
  });
}

function openImport(reload: () => Promise<void>): void {
  openForm({
    name: 'import',
    title: 'Import an image',
    text: 'A tar archive: an OCI layout, a docker archive or a root file system.',
    action: 'Import',
    fields: [
      {
        name: 'reference',
        label: 'What it is to be called',
        placeholder: 'team/tools:1',
        required: true,
      },
      { name: 'file', label: 'Archive', kind: 'file', required: true },
    ],
    run: async ({ reference = '' }, { file }) => {
      if (!file) throw new Error('Choose an archive.');
      await importImage(reference, file);
      await reload();
    },
  });
}

function ImageRow({ image, reload }: { image: Image; reload: () => Promise<void> }) {
  const remove = () =>
    confirm(
      'remove-image',
      `Remove ${image.reference}?`,
      'Sandboxes and snapshots on it keep their files.',
      'Remove',
      async () => {
        await removeImage(image.reference);
        await reload();
      },
    );
  const command = [...image.config.entrypoint, ...image.config.command].join(' ');
  return (
    <tr data-testid="image-row" data-reference={image.reference}>
      <td class="wide-text">
        <strong>{image.reference}</strong>
        <div>
          <small class="mono">
            {image.digest.slice(0, 19)}… {image.platform}
          </small>
        </div>
      </td>
      <td class="wide-text phone-hide">
        <code>{command}</code>
      </td>
      <td class="phone-hide">{image.config.ports.join(' ')}</td>
      <td class="num">{bytes(image.bytes)}</td>
      <td class="phone-hide">{image.source}</td>
      <td class="num phone-hide" title={dateTime(image.created_at)}>
        <Age time={image.created_at} />
      </td>
      <td class="actions-cell">
        <div class="row">
          {can('create') && (
            <Button
              testid="image-use"
              onClick={() =>
                openCreate({
                  image: image.reference,
                  command,
                  root: 'writable',
                  user: String(image.config.uid),
                })
              }
            >
              Use
            </Button>
          )}
          <a
            class="button quiet only-icon"
            href={exportAddress(image.reference)}
            download
            aria-label="Download as an archive"
            title="Download as an archive"
            data-testid="image-export"
          >
            <Icon name="download" />
          </a>
          {can('create') && (
            <Button
              kind="danger"
              icon="trash"
              label="Remove"
              testid="image-remove"
              onClick={remove}
            />
          )}
        </div>
      </td>
    </tr>
  );
}

export function ImagesScreen() {
  const load = useLoad(listImages, []);
  const pull = usePull();
  const images = load.data ?? [];
  const collect = async () => {
    const found = await collectGarbage();
    inform(
      `${bytes(found.bytes)} freed: ${plural(found.layers, 'layer')}, ${plural(found.blobs, 'blob')}`,
    );
  };
  return (
    <Page
      title="Images"
      testid="screen-images"
      actions={
        <>
          {can('admin') && (
            <Button testid="images-gc" title="Removes layers that nobody needs" onClick={collect}>
              Tidy up
            </Button>
          )}
          {can('create') && (
            <Button icon="upload" testid="image-import" onClick={() => openImport(load.reload)}>
              Import
            </Button>
          )}
          {can('create') && (
            <Button
              kind="primary"
              icon="download"
              testid="image-pull"
              disabled={pull.active}
              onClick={() => openPull(pull, load.reload)}
            >
              Pull
            </Button>
          )}
        </>
      }
    >
      <PullBars pull={pull} />
      {pull.active && (
        <div>
          <Button testid="pull-stop" onClick={pull.stop}>
            Stop the pull
          </Button>
        </div>
      )}
      {load.error && <Trouble error={load.error} />}
      <p class="lead">
        <code>host</code>, the programs of the server's own machine, is always there.
      </p>
      {images.length === 0 ? (
        <Empty testid="images-none">{load.data ? 'No other image yet.' : 'Loading…'}</Empty>
      ) : (
        <div class="table-wrap">
          <table>
            <Heads
              of={[
                'Reference',
                ['Command', 'phone-hide'],
                ['Ports', 'phone-hide'],
                ['Size', 'num'],
                ['From', 'phone-hide'],
                ['Age', 'num phone-hide'],
              ]}
              actions
            />
            <tbody>
              {images.map((image) => (
                <ImageRow key={image.reference} image={image} reload={load.reload} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Page>
  );
}
