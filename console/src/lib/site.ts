// Whether two hosts belong to one site, as far as that can be told without the list of public
// suffixes: the last two labels are the same. A page of another site gets no cookie inside a frame,
// so there is no use in showing it there.

const isAddress = (host: string): boolean => /^[0-9.]+$/.test(host) || host.includes(':');

export function sameSite(a: string, b: string): boolean {
  if (isAddress(a) || isAddress(b)) return a === b;
  const tail = (host: string) => host.toLowerCase().split('.').slice(-2);
  const [x, y] = [tail(a), tail(b)];
  return x.length === 2 && x.join('.') === y.join('.');
}
