// Loads something for a screen, again when `keys` change or somebody asks, and forgets answers that
// come too late.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { isAbort, isStatus } from '../api/client';
import { errorText } from './form';

export interface Loaded<T> {
  data: T | undefined;
  error: string;
  missing: boolean; // the server has no such route or thing
  reload: () => Promise<void>;
  set: (data: T) => void;
}

export function useLoad<T>(
  load: () => Promise<T>,
  keys: readonly unknown[],
  everyMs = 0,
): Loaded<T> {
  const [data, set] = useState<T | undefined>(undefined);
  const [error, setError] = useState('');
  const [missing, setMissing] = useState(false);
  const round = useRef(0);
  const reload = useCallback(async () => {
    const mine = ++round.current;
    try {
      const fresh = await load();
      if (mine !== round.current) return;
      set(() => fresh);
      setError('');
      setMissing(false);
    } catch (problem) {
      if (mine !== round.current || isAbort(problem)) return;
      setMissing(isStatus(problem, 404) || isStatus(problem, 405) || isStatus(problem, 410));
      setError(errorText(problem));
    }
  }, keys);
  useEffect(() => {
    set(undefined);
    setError('');
    void reload();
    return () => {
      round.current += 1;
    };
  }, keys);
  useEffect(() => {
    if (everyMs === 0) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) void reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload]);
  return { data, error, missing, reload, set };
}
