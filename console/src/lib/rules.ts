// Rules of the network: what a denied row asks for, and what a person types.
import type { NetworkRule } from '../api/types';

export interface Target {
  host: string;
  port?: number;
}

// The object of an egress row: "host:443", "[::1]:80" or a host alone. An address is no target: no
// rule can name one.
export function targetOf(object: string): Target | undefined {
  const at = object.lastIndexOf(':');
  const port = at > 0 ? Number(object.slice(at + 1)) : NaN;
  const hasPort = Number.isInteger(port) && port > 0 && port < 65536;
  const host = (hasPort ? object.slice(0, at) : object).toLowerCase().replace(/\.$/, '');
  if (!/^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/.test(host))
    return undefined;
  if (/^[0-9.]+$/.test(host)) return undefined;
  return hasPort ? { host, port } : { host };
}

const kNamePort = 53; // the resolver's: a name was asked for, nobody knows yet for which port
const kWebPorts = [80, 443];

// The rules with one that lets this through. The first rule that fits decides, so it comes first;
// one that names the very host already only gets the port.
export function allow(rules: readonly NetworkRule[], target: Target): NetworkRule[] {
  const ports = target.port === undefined || target.port === kNamePort ? kWebPorts : [target.port];
  const at = rules.findIndex((rule) => rule.domain.toLowerCase() === target.host);
  const known = rules[at];
  if (!known) return [{ domain: target.host, ports }, ...rules];
  if (!known.ports || known.ports.length === 0) return [...rules]; // every port already
  const merged = [...new Set([...known.ports, ...ports])].sort((a, b) => a - b);
  return rules.map((rule, index) => (index === at ? { ...rule, ports: merged } : rule));
}

// "80, 443" as numbers; nothing means every port. A string says what is wrong.
export function parsePorts(text: string): number[] | string {
  const out: number[] = [];
  for (const piece of text.split(/[\s,]+/).filter((part) => part !== '')) {
    const port = Number(piece);
    if (!Number.isInteger(port) || port < 1 || port > 65535)
      return `"${piece}" is not a port: 1 to 65535`;
    out.push(port);
  }
  return out;
}

// Lines such as "pypi.org", "*.example.com 443" or "host 80,443".
export function parseRuleLines(text: string): NetworkRule[] | string {
  const rules: NetworkRule[] = [];
  for (const line of text
    .split('\n')
    .map((part) => part.trim())
    .filter((part) => part !== '')) {
    const [domain = '', ...rest] = line.split(/\s+/);
    const ports = parsePorts(rest.join(' '));
    if (typeof ports === 'string') return `${domain}: ${ports}`;
    rules.push(ports.length > 0 ? { domain, ports } : { domain, ports: kWebPorts });
  }
  return rules;
}

// What a rule says beside its name, ports and rate.
export function extrasOf(rule: NetworkRule): string[] {
  const out: string[] = [];
  if (rule.apex) out.push('with the name itself');
  if (rule.methods?.length) out.push(rule.methods.join(' '));
  if (rule.path_prefixes?.length) out.push(`below ${rule.path_prefixes.join(' ')}`);
  if (rule.max_bytes != null) out.push(`at most ${rule.max_bytes} bytes`);
  if (rule.granted_addresses?.length) out.push(`also at ${rule.granted_addresses.join(' ')}`);
  if (rule.inspect) out.push('looks into TLS');
  if (rule.otherwise) out.push('for names that no other rule names');
  for (const item of rule.inject ?? []) out.push(`adds ${item.header}`);
  return out;
}
