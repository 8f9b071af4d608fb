// Compositions that fail in a frame of the buyer's choice.
import React, {useLayoutEffect} from 'react';
import {delayRender, useCurrentFrame} from 'remotion';
import {Film} from './film.jsx';

// Asks Remotion to wait in frame `at`, and never says that it may go on.
export const Slow = ({color, at}) => {
  const frame = useCurrentFrame();
  useLayoutEffect(() => {
    if (frame === at) {
      delayRender(`frame ${frame} never gets ready`);
    }
  }, [frame, at]);
  return <Film color={color} />;
};

// Throws in frame `at`.
export const Loud = ({color, at, message}) => {
  const frame = useCurrentFrame();
  if (frame === at) {
    throw new Error(`${message}, in frame ${frame}`);
  }
  return <Film color={color} />;
};
