// Pictures that a test can compute: one colour and a white block, both plain functions of the frame.
import React from 'react';
import {AbsoluteFill, Audio, OffthreadVideo, staticFile, useCurrentFrame} from 'remotion';

// #rrggbb of frame 0; each frame adds 4 to red, modulo 256.
const background = (color, frame) => {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgb(${(red + 4 * frame) % 256}, ${green}, ${blue})`;
};

// The block is 20 by 20, its upper left corner at (15 * frame, 20).
export const Film = ({color}) => {
  const frame = useCurrentFrame();
  return (
    <AbsoluteFill style={{background: background(color, frame)}}>
      <div
        style={{position: 'absolute', left: 15 * frame, top: 20, width: 20, height: 20, background: 'white'}}
      />
    </AbsoluteFill>
  );
};

export const Tone = ({color, sound}) => (
  <>
    <Film color={color} />
    <Audio src={staticFile(sound)} />
  </>
);

export const Clip = () => (
  <AbsoluteFill style={{background: 'black'}}>
    <OffthreadVideo src={staticFile('clip.mp4')} />
  </AbsoluteFill>
);
