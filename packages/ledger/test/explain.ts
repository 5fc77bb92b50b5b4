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
  /** Pages of 8 KiB that the query touched: the same on any machine, however busy. */
  readonly blocks: number;
  readonly indexes: string[];
  /** Kinds of plan nodes. */
  readonly nodes: string[];
}

/** Runs a query and tells what it cost. */
export async function costOf(db: Database, query: RawBuilder<unknown>): Promise<Cost> {
  const { rows } = await sql<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>`
    EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ${query}`.execute(db);
  const plan = rows[0]?.['QUERY PLAN'][0].Plan;
  if (!plan) throw new Error('EXPLAIN answered no plan');
  const all = flat(plan);
  return {
    blocks: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
    indexes: [...new Set(all.flatMap((node) => node['Index Name'] ?? []))].sort(),
    nodes: all.map((node) => node['Node Type']),
  };
}

function flat(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flat)];
}
