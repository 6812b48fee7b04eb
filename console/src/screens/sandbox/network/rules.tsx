// Where the sandbox may go. Fields that this table does not show are kept as they are, and can be
// edited as JSON.
import { useEffect, useState } from 'preact/hooks';
import { setNetwork } from '../../../api/sandboxes';
import type { NetworkRule, Sandbox } from '../../../api/types';
import { extrasOf, parsePorts } from '../../../lib/rules';
import { put } from '../../../state/fleet';
import { can } from '../../../state/session';
import { inform } from '../../../state/toasts';
import { Empty } from '../../../ui/bits';
import { Button } from '../../../ui/button';
import { openForm } from '../../../ui/form';
import { Heads } from '../../../ui/heads';

interface Line {
  domain: string;
  ports: string;
  rate: string;
  rule: NetworkRule;
}

const lineOf = (rule: NetworkRule): Line => ({
  domain: rule.domain,
  ports: (rule.ports ?? []).join(', '),
  rate: rule.rate_limit_per_min == null ? '' : String(rule.rate_limit_per_min),
  rule,
});

function ruleOf(line: Line): NetworkRule {
  const ports = parsePorts(line.ports);
  if (typeof ports === 'string') throw new Error(`${line.domain}: ${ports}`);
  const rate = line.rate.trim() === '' ? undefined : Number(line.rate);
  if (rate !== undefined && !Number.isInteger(rate))
    throw new Error(`${line.domain}: "${line.rate}" is not a rate: want a whole number`);
  const rule: NetworkRule = { ...line.rule, domain: line.domain.trim(), ports };
  if (rate === undefined) delete rule.rate_limit_per_min;
  else rule.rate_limit_per_min = rate;
  return rule;
}

function openJson(box: Sandbox): void {
  openForm({
    name: 'rules-json',
    title: 'Rules as JSON',
    text: 'All fields of a rule are in the API document; the server says what is wrong.',
    action: 'Save',
    fields: [
      {
        name: 'json',
        label: 'Rules',
        kind: 'area',
        value: JSON.stringify(box.network.rules, null, 2),
      },
    ],
    run: async ({ json = '[]' }) => {
      const rules: unknown = JSON.parse(json);
      if (!Array.isArray(rules)) throw new Error('want a list of rules');
      put(await setNetwork(box.id, rules as NetworkRule[]));
    },
  });
}

function RuleRow({
  line,
  index,
  editable,
  change,
  remove,
}: {
  line: Line;
  index: number;
  editable: boolean;
  change: (part: Partial<Line>) => void;
  remove: () => void;
}) {
  const input = (name: 'domain' | 'ports' | 'rate', label: string, placeholder: string) => (
    <input
      type="text"
      aria-label={label}
      placeholder={placeholder}
      disabled={!editable}
      value={line[name]}
      data-testid={`rule-${name}-${index}`}
      onInput={(event) => change({ [name]: event.currentTarget.value })}
    />
  );
  return (
    <tr data-testid="rule-row" data-domain={line.domain}>
      <td>{input('domain', 'Name', 'pypi.org or *.example.com')}</td>
      <td>{input('ports', 'Ports', 'every port')}</td>
      <td class="phone-hide">{input('rate', 'Requests per minute', '60')}</td>
      <td class="phone-hide">
        {extrasOf(line.rule).map((text) => (
          <span key={text} class="chip" title={text}>
            {text}
          </span>
        ))}
      </td>
      <td class="actions-cell">
        {editable && (
          <Button
            kind="quiet"
            icon="trash"
            label="Remove the rule"
            testid={`rule-remove-${index}`}
            onClick={remove}
          />
        )}
      </td>
    </tr>
  );
}

export function RulesEditor({ box }: { box: Sandbox }) {
  const [lines, setLines] = useState<Line[]>([]);
  const [changed, setChanged] = useState(false);
  const reset = () => {
    setLines(box.network.rules.map(lineOf));
    setChanged(false);
  };
  const text = JSON.stringify(box.network.rules);
  useEffect(reset, [box.id, text]);
  const editable = can('create') && box.state !== 'ended';
  const edit = (next: Line[]) => {
    setLines(next);
    setChanged(true);
  };
  const save = async () => {
    put(await setNetwork(box.id, lines.filter((line) => line.domain.trim() !== '').map(ruleOf)));
    setChanged(false);
    inform('The rules hold from now on');
  };
  return (
    <section class="panel" data-testid="rules">
      <div class="panel-head">
        <h2>
          Rules{' '}
          <span class="chip" data-testid="network-mode">
            {box.network.mode === 'none' ? 'no network' : 'allowlist'}
          </span>
        </h2>
        {editable && (
          <div class="actions">
            <Button
              icon="plus"
              testid="rule-add"
              onClick={() => edit([...lines, lineOf({ domain: '', ports: [80, 443] })])}
            >
              Rule
            </Button>
            <Button testid="rules-json" onClick={() => openJson(box)}>
              As JSON
            </Button>
            {changed && (
              <Button testid="rules-reset" onClick={reset}>
                Discard
              </Button>
            )}
            <Button kind="primary" disabled={!changed} testid="rules-save" onClick={save}>
              Save
            </Button>
          </div>
        )}
      </div>
      {lines.length === 0 ? (
        <Empty>Nothing leaves this sandbox.</Empty>
      ) : (
        <table class="rules">
          <Heads
            of={['Name', 'Ports', ['Per minute', 'phone-hide'], ['More', 'phone-hide']]}
            actions
          />
          <tbody>
            {lines.map((line, index) => (
              <RuleRow
                key={index}
                line={line}
                index={index}
                editable={editable}
                change={(part) =>
                  edit(lines.map((other, at) => (at === index ? { ...other, ...part } : other)))
                }
                remove={() => edit(lines.filter((_, at) => at !== index))}
              />
            ))}
          </tbody>
        </table>
      )}
      <small>The first rule that fits decides; what no rule allows is refused and recorded.</small>
    </section>
  );
}
