import { parser } from '@prometheus-io/lezer-promql';

type SyntaxNode = ReturnType<typeof parser.parse>['topNode'];

/** What a query takes series of: a metric, by these labels. */
interface Selector {
  readonly metric: string;
  readonly labels: readonly string[];
}

/** Labels by which series are grouped or matched, and the metrics that have to have them. */
interface Grouping {
  readonly labels: readonly string[];
  readonly metrics: readonly string[];
}

export interface Query {
  readonly selectors: readonly Selector[];
  readonly groupings: readonly Grouping[];
  /** Metrics that no aggregation takes labels from. */
  readonly bare: readonly string[];
}

/** Grafana puts these into a query before Prometheus sees it. */
const VARIABLES: readonly (readonly [RegExp, string])[] = [
  [/\$__rate_interval|\$__interval|\$__range/g, '5m'],
  [/\$\w+/g, '.*'],
];

export const withoutVariables = (query: string): string =>
  VARIABLES.reduce((text, [variable, value]) => text.replaceAll(variable, value), query);

/** What a query asks for; throws where it does not parse. */
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
        // Of the aggregation or of both sides of the operator that it belongs to.
        metrics: grouping.parent?.parent ? metricsOf(grouping.parent.parent) : [],
      })),
  };
}
