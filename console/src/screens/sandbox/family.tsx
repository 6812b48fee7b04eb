// The family as a picture: the image, its snapshots, and the sandboxes that stand on them.
import type { Sandbox, Snapshot } from '../../api/types';
import { familyGraph, type Node } from '../../lib/graph';
import { fleet } from '../../state/fleet';
import { sandboxHref } from '../../state/route';

const kColumn = 172;
const kRow = 44;
const kWidth = 140;
const kHeight = 28;
const kLetters = 15;

const left = (node: Node) => 8 + node.x * kColumn;
const top = (node: Node) => 8 + node.y * kRow;
const clip = (text: string) => (text.length > kLetters ? `${text.slice(0, kLetters - 1)}…` : text);

function Shape({ node, here }: { node: Node; here: boolean }) {
  const body = (
    <g
      class={`node ${node.kind} ${node.state} ${here ? 'here' : ''}`}
      data-testid={`family-${node.kind}`}
    >
      <title>{`${node.kind} ${node.label}`}</title>
      <rect
        x={left(node)}
        y={top(node)}
        width={kWidth}
        height={kHeight}
        rx={node.kind === 'snapshot' ? 3 : 14}
      />
      <circle cx={left(node) + 14} cy={top(node) + kHeight / 2} r={4} />
      <text x={left(node) + 25} y={top(node) + kHeight / 2 + 4}>
        {clip(node.label)}
      </text>
    </g>
  );
  return node.kind === 'sandbox' && !here ? (
    <a href={sandboxHref(node.id, 'snapshots')}>{body}</a>
  ) : (
    body
  );
}

export function Family({ box, snapshots }: { box: Sandbox; snapshots: Snapshot[] }) {
  const boxes = [...fleet.value.values()].filter(
    (other) => other.state !== 'ended' || other.id === box.id,
  );
  const graph = familyGraph(box.id, box.image, boxes, snapshots);
  const width = 16 + (graph.columns - 1) * kColumn + kWidth;
  const height = 16 + (graph.rows - 1) * kRow + kHeight;
  return (
    <div
      class="family"
      data-testid="family"
      tabIndex={0}
      role="group"
      aria-label="Family of this sandbox"
    >
      <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height}>
        {graph.edges.map(({ from, to }) => {
          const x1 = left(from) + kWidth;
          const y1 = top(from) + kHeight / 2;
          const x2 = left(to);
          const y2 = top(to) + kHeight / 2;
          const mid = (x1 + x2) / 2;
          return (
            <path
              key={`${from.id} ${to.id}`}
              class="edge"
              d={`M${x1} ${y1}C${mid} ${y1} ${mid} ${y2} ${x2} ${y2}`}
            />
          );
        })}
        {graph.nodes.map((node) => (
          <Shape key={node.id} node={node} here={node.id === box.id} />
        ))}
      </svg>
      {graph.left > 0 && <small>{graph.left} more are not drawn</small>}
    </div>
  );
}
