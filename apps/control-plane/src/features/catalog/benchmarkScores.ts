/** `avg_score` is the mean of what is there, each on a scale of 100; a score that nobody published stays absent. */
export function benchmarkScores(scores: Readonly<Record<string, number>>): Record<string, number> {
  const { mmlu, human_eval, mt_bench } = scores;
  const percent = [mmlu, human_eval, mt_bench === undefined ? undefined : mt_bench * 10].filter(
    (score) => score !== undefined,
  );
  if (percent.length === 0) return {};
  const mean = percent.reduce((sum, score) => sum + score, 0) / percent.length;
  return {
    ...(mmlu !== undefined && { mmlu }),
    ...(human_eval !== undefined && { human_eval }),
    ...(mt_bench !== undefined && { mt_bench }),
    avg_score: Math.round(mean * 100) / 100,
  };
}
