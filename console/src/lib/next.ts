// Where somebody was going when he was sent to the login: "#/login?next=ADDRESS". Anybody can write
// such a link, so only the way to a preview of this server is followed, and nothing else.
const kOpen = '/preview/open?';

export function nextAddress(hash: string): string | undefined {
  const found = /^#\/login\?next=([^&#]+)$/.exec(hash);
  if (!found) return undefined;
  try {
    const address = decodeURIComponent(found[1] ?? '');
    return address.startsWith(kOpen) ? address : undefined;
  } catch {
    return undefined;
  }
}
