/** A time limit and a caller's abort, told apart. */
import { abortedError, KnowledgeBaseError } from "./errors.js";

export type Deadline = {
  readonly what: string;
  readonly limitMs: number;
  readonly signal: AbortSignal | undefined;
};

/**
 * Run work that ends when its time is up or its caller gives up, whichever comes first.
 *
 * Rejects at once, whether the work heeds its signal or not.
 */
export async function within<T>(deadline: Deadline, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { what, limitMs, signal } = deadline;
  if (signal?.aborted) throw abortedError();
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(abortedError());
  const timer = setTimeout(() => {
    controller.abort(new KnowledgeBaseError("timeout", `${what} did not answer within ${limitMs / 1000} s.`));
  }, limitMs);
  signal?.addEventListener("abort", onAbort, { once: true });
  const stopped = new Promise<never>((_, reject) => {
    controller.signal.addEventListener("abort", () => reject(controller.signal.reason), { once: true });
  });
  try {
    return await Promise.race([work(controller.signal), stopped]);
  } catch (error) {
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
