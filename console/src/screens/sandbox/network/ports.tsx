// Programs that listen inside, and how to look at them: by an address of their own, when the server
// has a domain for previews, or through the API.
import { useState } from 'preact/hooks';
import { ApiError } from '../../../api/client';
import { getPorts, openPreview, portAddress } from '../../../api/sandboxes';
import type { Preview, Sandbox } from '../../../api/types';
import { clock } from '../../../lib/format';
import { sameSite } from '../../../lib/site';
import { can, server } from '../../../state/session';
import { Copy, Empty } from '../../../ui/bits';
import { Button } from '../../../ui/button';
import { openForm } from '../../../ui/form';
import { useLoad } from '../../../ui/use_load';

const kEveryMs = 4000;

interface Shown {
  port: number;
  address: string; // an invitation, good once and for a minute; or a path of the API
  preview?: Preview;
}

async function look(box: Sandbox, port: number): Promise<Shown> {
  try {
    const preview = await openPreview(box.id, port);
    return { port: preview.port ?? port, address: preview.invitation, preview };
  } catch (error) {
    // Without a domain for previews the API's own way is left; it shows pages in an origin of no rights.
    if (error instanceof ApiError && error.status === 501)
      return { port, address: portAddress(box.id, port) };
    throw error;
  }
}

// The server wrote it, but a link is only followed when it is one to a web page.
const isWeb = (address: string) => /^(https?:\/\/|\/api\/)/.test(address);

function PreviewPanel({
  box,
  shown,
  onClose,
}: {
  box: Sandbox;
  shown: Shown;
  onClose: () => void;
}) {
  const [used, setUsed] = useState(false);
  const [frame, setFrame] = useState('');
  const { preview } = shown;
  // Who was let in has a cookie for that address, so the plain one will do from then on.
  const address = used && preview ? preview.url : shown.address;
  if (!isWeb(address)) return null;
  const showHere = async () => {
    if (frame) return setFrame('');
    const fresh = await look(box, shown.port);
    return setFrame(isWeb(fresh.address) ? fresh.address : '');
  };
  return (
    <div class="preview" data-testid="preview">
      <div class="row">
        <a
          class="button primary"
          href={address}
          target="_blank"
          rel="noopener noreferrer"
          data-testid="preview-open"
          onClick={() => setTimeout(() => setUsed(true), 0)}
        >
          Open in a new tab
        </a>
        <code class="grow clip" data-testid="preview-url">
          {preview?.url ?? shown.address}
        </code>
        {preview && <Copy text={preview.url} label="Copy the address" testid="preview-copy" />}
        {preview && sameSite(location.hostname, new URL(preview.url).hostname) && (
          <Button pressed={frame !== ''} testid="preview-here" onClick={showHere}>
            Show here
          </Button>
        )}
        <Button kind="quiet" icon="close" label="Close" onClick={onClose} />
      </div>
      {preview && !box.public && (
        <small>
          The first click lets this browser in, until {clock(preview.expires_at)}; the address alone
          lets nobody in.
        </small>
      )}
      {frame && (
        <iframe
          title={`Port ${shown.port}`}
          src={frame}
          data-testid="preview-frame"
          sandbox="allow-scripts allow-forms allow-same-origin allow-popups"
          referrerpolicy="no-referrer"
        />
      )}
    </div>
  );
}

export function PortsPanel({ box }: { box: Sandbox }) {
  const running = box.state === 'running';
  const load = useLoad(
    async () => (running ? getPorts(box.id) : { exposed: [], listening: [] }),
    [box.id, running],
    kEveryMs,
  );
  const [shown, setShown] = useState<Shown | undefined>(undefined);
  const open = async (port: number) => setShown(await look(box, port));
  const other = () =>
    openForm({
      name: 'port',
      title: 'Look at a port',
      action: 'Open',
      fields: [{ name: 'port', label: 'Port', kind: 'number', value: '8000', required: true }],
      run: async ({ port }) => open(Number(port)),
    });
  const listening = load.data?.listening ?? [];
  const exposed = (load.data?.exposed ?? []).filter((port) => !listening.includes(port));
  return (
    <section class="panel" data-testid="ports">
      <div class="panel-head">
        <h2>Ports and previews</h2>
        {can('use') && (
          <Button disabled={!running} testid="port-other" onClick={other}>
            Other port…
          </Button>
        )}
      </div>
      {listening.length + exposed.length === 0 ? (
        <Empty testid="ports-none">
          {running ? 'Nobody listens inside.' : 'Only a running sandbox has ports.'}
        </Empty>
      ) : (
        <div class="row">
          {[...listening, ...exposed].map((port) => (
            <span key={port} class="port" data-testid="port" data-port={port}>
              <span class={listening.includes(port) ? 'dot running' : 'dot stopped'} />
              <strong>{port}</strong>
              <small>{listening.includes(port) ? 'listening' : 'exposed'}</small>
              {can('use') && (
                <Button testid={`port-open-${port}`} onClick={() => open(port)}>
                  Open
                </Button>
              )}
            </span>
          ))}
        </div>
      )}
      {shown && (
        <PreviewPanel
          key={shown.address}
          box={box}
          shown={shown}
          onClose={() => setShown(undefined)}
        />
      )}
      <small>
        {server.value?.vhost
          ? `Previews have addresses below ${server.value.vhost}, ${box.public ? 'and everybody may look.' : 'for who was invited.'}`
          : 'This server has no domain for previews; ports are reached through the API.'}
      </small>
    </section>
  );
}
