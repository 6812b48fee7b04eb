// Numbers and times as people read them.

const kUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(value: number): string {
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < kUnits.length - 1) {
    left /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || left >= 100 ? 0 : 1;
  return `${left.toFixed(digits).replace(/\.0$/, '')} ${kUnits[unit]}`;
}

// Two units at most: "3 d 4 h", "5 min", "12 s".
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return minutes < 10 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 10 ? `${days} d ${hours % 24} h` : `${days} d`;
}

// One unit, for narrow columns.
export function shortDuration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h`;
  return `${Math.floor(whole / 86400)}d`;
}

export const secondsSince = (time: string, now: number): number => (now - Date.parse(time)) / 1000;
export const secondsUntil = (time: string, now: number): number => (Date.parse(time) - now) / 1000;

const two = (value: number) => String(value).padStart(2, '0');

// In the reader's own zone: "2026-01-31 08:20:23".
export function dateTime(time: string): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return time;
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${clock(time)}`;
}

export function clock(time: string): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return time;
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export const shortId = (id: string): string => id.slice(0, 8);

export function money(usd: number): string {
  if (usd === 0) return '$0';
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export const count = (value: number): string => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ',');

export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`;

export const percent = (part: number): string => `${Math.round(Math.min(9.99, part) * 100)}%`;

// A signal's number as its name.
const kSignals: Record<number, string> = {
  1: 'HUP',
  2: 'INT',
  3: 'QUIT',
  4: 'ILL',
  6: 'ABRT',
  8: 'FPE',
  9: 'KILL',
  11: 'SEGV',
  13: 'PIPE',
  14: 'ALRM',
  15: 'TERM',
};
export const signalName = (signal: number): string => kSignals[signal] ?? String(signal);

export interface Ending {
  exit_code: number | null;
  signal: number;
  timed_out: boolean;
  oom_killed: boolean;
}
export function ending(end: Ending): string {
  if (end.timed_out) return 'out of time';
  if (end.oom_killed) return 'out of memory';
  if (end.signal) return `signal ${signalName(end.signal)}`;
  return `exit ${end.exit_code ?? '?'}`;
}
