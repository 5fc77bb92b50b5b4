import { parser } from '@prometheus-io/lezer-promql';

type SyntaxNode = ReturnType<typeof parser.parse>['topNode'];

/** A metric that a query reads, and the labels that it filters by. */
interface Selector {
  readonly metric: string;
  readonly labels: readonly string[];
}

/** Labels by which series are grouped or matched, and the metrics that must have them. */
interface Grouping {
  readonly labels: readonly string[];
  readonly metrics: readonly string[];
}

export interface Query {
  readonly selectors: readonly Selector[];
  readonly groupings: readonly Grouping[];
  /** Metrics outside of aggregations, which keep all their labels. */
  readonly bare: readonly string[];
}

/** Variables that Grafana replaces before it sends a query to Prometheus. */
const VARIABLES: readonly (readonly [RegExp, string])[] = [
  [/\$__rate_interval|\$__interval|\$__range/g, '5m'],
  [/\$\w+/g, '.*'],
];

export const withoutVariables = (query: string): string =>
  VARIABLES.reduce((text, [variable, value]) => text.replaceAll(variable, value), query);

/** Parses a query into its metrics and labels. Throws on a syntax error. */
export function readQuery(text: string): Query {
  const tree = parser.parse(text);
  const nodes: SyntaxNode[] = [];
  tree.iterate({
    enter: ({ node, type }) => {
      if (type.isError) throw new Error(`does not parse at ${node.from}: ${text}`);
      nodes.push(node);
    },
  });
  const textOf = ({ from, to }: SyntaxNode) => text.slice(from, to);
  const under = (node: SyntaxNode, name: string) =>
    nodes.filter((one) => one.name === name && one.from >= node.from && one.to <= node.to);
  const metricsOf = (node: SyntaxNode) =>
    under(node, 'VectorSelector').flatMap((selector) => under(selector, 'Identifier').map(textOf));
  const aggregated = nodes.filter(({ name }) => name === 'AggregateExpr');
  const isAggregated = (node: SyntaxNode) =>
    aggregated.some(({ from, to }) => from <= node.from && node.to <= to);
  return {
    bare: nodes
      .filter((node) => node.name === 'VectorSelector' && !isAggregated(node))
      .flatMap((selector) => under(selector, 'Identifier').map(textOf)),
    selectors: nodes
      .filter(({ name }) => name === 'VectorSelector')
      .map((selector) => ({
        metric: under(selector, 'Identifier').map(textOf)[0] ?? '',
        labels: under(selector, 'LabelName').map(textOf),
      })),
    groupings: nodes
      .filter(({ name }) => name === 'GroupingLabels')
      .map((grouping) => ({
        labels: under(grouping, 'LabelName').map(textOf),
        // The metrics of the aggregation, or of both sides of the operator, that it belongs to.
        metrics: grouping.parent?.parent ? metricsOf(grouping.parent.parent) : [],
      })),
  };
}
