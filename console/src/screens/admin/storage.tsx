import { getStorage } from '../../api/store';
import { bytes } from '../../lib/format';
import { Bar, Facts, Trouble } from '../../ui/bits';
import { useLoad } from '../../ui/use_load';

export function StoragePanel() {
  const load = useLoad(getStorage, []);
  const store = load.data;
  return (
    <div class="stack" data-testid="panel-storage">
      <p class="lead">
        Where layers, snapshots and volumes lie, and what this host can do with them.
      </p>
      {load.error && <Trouble error={load.error} />}
      {store && (
        <section class="panel stack">
          <div>
            <p>
              {bytes(store.bytes - store.free_bytes)} of {bytes(store.bytes)} used,{' '}
              {bytes(store.free_bytes)} free
            </p>
            <Bar
              part={store.bytes ? (store.bytes - store.free_bytes) / store.bytes : 0}
              label="used"
            />
          </div>
          <Facts
            rows={[
              ['Kind', store.kind],
              ['Limits on disk', store.limits ? 'hold' : 'cannot be held here'],
              [
                'Snapshots while processes run',
                store.live_snapshots ? 'in a moment' : 'by copying',
              ],
              ...(store.why ? [['What is missing', store.why] as [string, string]] : []),
            ]}
          />
        </section>
      )}
    </div>
  );
}
