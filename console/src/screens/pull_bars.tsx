// A pull under way: one bar per layer.
import { useEffect, useRef, useState } from 'preact/hooks';
import { pullImage, type PullProgress, type PullWish } from '../api/store';
import { bytes } from '../lib/format';
import { Bar } from '../ui/bits';

const kLayersShownMax = 40;

export interface Pull {
  active: boolean;
  stage: string;
  layers: Map<string, PullProgress>;
  run: (wish: PullWish) => Promise<void>;
  stop: () => void;
}

export function usePull(): Pull {
  const [active, setActive] = useState(false);
  const [stage, setStage] = useState('');
  const [layers, setLayers] = useState<Map<string, PullProgress>>(new Map());
  const abort = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  const run = async (wish: PullWish) => {
    abort.current?.abort();
    abort.current = new AbortController();
    setLayers(new Map());
    setActive(true);
    try {
      await pullImage(
        wish,
        (progress) => {
          setStage(progress.stage);
          if (progress.layer) {
            const key = progress.layer;
            setLayers((now) =>
              now.size < kLayersShownMax || now.has(key) ? new Map(now).set(key, progress) : now,
            );
          }
        },
        abort.current.signal,
      );
    } finally {
      setActive(false);
    }
  };
  return { active, stage, layers, run, stop: () => abort.current?.abort() };
}

export function PullBars({ pull }: { pull: Pull }) {
  if (!pull.active) return null;
  return (
    <div class="panel" data-testid="pull-progress" role="status">
      <p>Pulling: {pull.stage || 'asking the registry'}…</p>
      {[...pull.layers].map(([layer, progress]) => (
        <div key={layer} class="pull-layer">
          <code>{layer.replace('sha256:', '').slice(0, 12)}</code>
          <Bar part={progress.total ? (progress.done ?? 0) / progress.total : 0} label={layer} />
          <small>
            {progress.stage}{' '}
            {progress.total ? `${bytes(progress.done ?? 0)} of ${bytes(progress.total)}` : ''}
          </small>
        </div>
      ))}
    </div>
  );
}
