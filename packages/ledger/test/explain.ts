import type { Database } from '@weighbridge/database';
import { type RawBuilder, sql } from 'kysely';

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly PlanNode[];
}

export interface Cost {
  /** The 8 KiB pages that the query touched, which is the same on any machine. */
  readonly blocks: number;
  readonly indexes: string[];
  /** The types of the plan's nodes that touched pages: scanning an empty partition is free. */
  readonly nodes: string[];
}

/** Runs a query, and returns its cost. */
export async function costOf(db: Database, query: RawBuilder<unknown>): Promise<Cost> {
  const { rows } = await sql<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>`
    EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ${query}`.execute(db);
  const plan = rows[0]?.['QUERY PLAN'][0].Plan;
  if (!plan) throw new Error('EXPLAIN returned no plan');
  const all = flat(plan);
  return {
    blocks: blocksOf(plan),
    indexes: [...new Set(all.flatMap((node) => node['Index Name'] ?? []))].sort(),
    nodes: all.filter((node) => blocksOf(node) > 0).map((node) => node['Node Type']),
  };
}

function blocksOf(node: PlanNode): number {
  return node['Shared Hit Blocks'] + node['Shared Read Blocks'];
}

function flat(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flat)];
}
