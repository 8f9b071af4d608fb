// What Node runs, behind the wall: opens the browser, reads the bundle's compositions, renders one.
//
//   node script.mjs TASK.json
//
// Writes one JSON object a line to stdout: {"opened"}, {"composition"}, {"drawn","written"}, {"failed"}, {"done"}.
// Nothing else may: whatever Remotion or a page prints goes to stderr.
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';

const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
const say = (event, then) => write(JSON.stringify(event) + '\n', then);

const task = JSON.parse(readFileSync(process.argv[2], 'utf8'));

// The system's errors that are this machine's fault. Only the system numbers its errors: what a page
// throws comes without.
const machine = ['EACCES', 'EDQUOT', 'EIO', 'EMFILE', 'ENOMEM', 'ENOSPC', 'EPERM', 'EROFS'];

// A message without the stack, whose lines are of bundled code.
const failed = (place, error) => {
  const message = String(error?.message ?? error).slice(0, 700);
  const ours = typeof error?.errno === 'number' && machine.includes(error.code);
  say({ failed: { place, message, ours } }, () => process.exit(1));
  return new Promise(() => {});
};

const common = {
  serveUrl: task.bundle,
  port: task.port,
  browserExecutable: task.browser,
  chromeMode: task.mode,
  chromiumOptions: { gl: process.platform === 'darwin' ? 'angle' : 'swangle' },
  timeoutInMilliseconds: task.frame_ms,
  inputProps: task.props,
  logLevel: 'error',
  onBrowserLog: () => {},
};

const open = async () => {
  try {
    const remotion = createRequire(task.packages)('@remotion/renderer');
    return [remotion, await remotion.openBrowser('chrome', common)];
  } catch (error) {
    return failed('opening', error);
  }
};

// A page may give anything for a number, of any length.
const number = (value) => (typeof value === 'number' ? value : null);

const list = async ({ getCompositions }, options) => {
  const found = await getCompositions(task.bundle, options);
  const compositions = found.map((one) => ({
    id: one.id,
    width: number(one.width),
    height: number(one.height),
    fps: number(one.fps),
    duration_in_frames: number(one.durationInFrames),
    default_props: one.defaultProps ?? {},
  }));
  writeFileSync(task.output, JSON.stringify(compositions));
};

const render = async ({ selectComposition, renderMedia }, options) => {
  const composition = await selectComposition({ ...options, id: task.composition });
  const { width, height, fps, durationInFrames } = composition;
  say({
    composition: {
      id: task.composition,
      width: number(width),
      height: number(height),
      fps: number(fps),
      duration_in_frames: number(durationInFrames),
    },
  });
  const first = task.first_frame ?? 0;
  const last = task.last_frame ?? durationInFrames - 1;
  await renderMedia({
    ...options,
    composition,
    frameRange: [first, last],
    outputLocation: task.output,
    // A master that is encoded once more: near to lossless, and quick.
    codec: 'h264-mkv',
    audioCodec: 'pcm-16',
    crf: 6,
    x264Preset: 'veryfast',
    colorSpace: 'bt709',
    imageFormat: 'jpeg',
    jpegQuality: 95,
    onProgress: ({ renderedFrames, encodedFrames }) =>
      say({ drawn: renderedFrames, written: encodedFrames }),
  });
};

const [remotion, puppeteerInstance] = await open();
say({ opened: true });
try {
  const options = { ...common, puppeteerInstance };
  await (task.composition === undefined ? list : render)(remotion, options);
} catch (error) {
  await failed('bundle', error);
}
// The browser goes with the wall: closing it by hand may hang.
say({ done: true }, () => process.exit(0));
