import { listVolumes, putVolume, removeVolume } from '../api/store';
import type { Volume } from '../api/types';
import { bytes, shortId } from '../lib/format';
import { sandboxHref } from '../state/route';
import { can } from '../state/session';
import { Age, Bar, Empty, Page, Trouble } from '../ui/bits';
import { Button } from '../ui/button';
import { confirm, openForm } from '../ui/form';
import { useLoad } from '../ui/use_load';
import { Heads } from '../ui/heads';

const kMebibyte = 1048576;

function openVolume(volume: Volume | undefined, reload: () => Promise<void>): void {
  openForm({
    name: 'volume',
    title: volume ? `Size of ${volume.name}` : 'New volume',
    action: volume ? 'Change' : 'Make it',
    fields: [
      ...(volume ? [] : [{ name: 'name', label: 'Name', placeholder: 'cache', required: true }]),
      {
        name: 'size',
        label: 'May hold, MiB',
        kind: 'number' as const,
        value: String((volume?.bytes_max ?? 1024 * kMebibyte) / kMebibyte),
        required: true,
      },
    ],
    run: async ({ name, size }) => {
      await putVolume(volume?.name ?? name ?? '', Math.round(Number(size) * kMebibyte));
      await reload();
    },
  });
}

function VolumeRow({ volume, reload }: { volume: Volume; reload: () => Promise<void> }) {
  const remove = () =>
    confirm(
      'remove-volume',
      `Remove ${volume.name}?`,
      'All that is in it is lost.',
      'Remove',
      async () => {
        await removeVolume(volume.name);
        await reload();
      },
    );
  return (
    <tr data-testid="volume-row" data-name={volume.name}>
      <td class="wide-text">
        <strong>{volume.name}</strong>
      </td>
      <td class="usage-cell">
        <Bar
          part={volume.bytes_max ? volume.bytes / volume.bytes_max : 0}
          label={`${volume.name} is used`}
        />
        <small>
          {bytes(volume.bytes)} of {bytes(volume.bytes_max)}
        </small>
      </td>
      <td class="phone-hide">
        {volume.sandboxes.map((id) => (
          <a key={id} class="kin" href={sandboxHref(id)}>
            <code>{shortId(id)}</code>
          </a>
        ))}
      </td>
      <td class="num phone-hide">
        <Age time={volume.created_at} />
      </td>
      <td class="actions-cell">
        {can('create') && (
          <div class="row">
            <Button testid="volume-resize" onClick={() => openVolume(volume, reload)}>
              Size
            </Button>
            <Button
              kind="danger"
              icon="trash"
              label="Remove"
              testid="volume-remove"
              onClick={remove}
            />
          </div>
        )}
      </td>
    </tr>
  );
}

export function VolumesScreen() {
  const load = useLoad(listVolumes, []);
  const volumes = load.data ?? [];
  return (
    <Page
      title="Volumes"
      testid="screen-volumes"
      actions={
        can('create') && (
          <Button
            kind="primary"
            icon="plus"
            testid="volume-new"
            onClick={() => openVolume(undefined, load.reload)}
          >
            New
          </Button>
        )
      }
    >
      <p class="lead">Files that outlive sandboxes and that several may share.</p>
      {load.error && <Trouble error={load.error} />}
      {volumes.length === 0 ? (
        <Empty testid="volumes-none">
          {load.data ? 'No volume yet.' : load.error ? '' : 'Loading…'}
        </Empty>
      ) : (
        <div class="table-wrap">
          <table>
            <Heads
              of={['Name', 'Used', ['Sandboxes', 'phone-hide'], ['Age', 'num phone-hide']]}
              actions
            />
            <tbody>
              {volumes.map((volume) => (
                <VolumeRow key={volume.name} volume={volume} reload={load.reload} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Page>
  );
}
